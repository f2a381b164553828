-- A row of `ready` that carries its input is found by the place that its task names. Somebody may have moved it by hand, or its task may be gone. Such a row
-- is found by its time, because it would come again with every batch otherwise.
create or replace function expire_tasks(p_tasks uuid[]) returns integer
language plpgsql set search_path from current set enable_seqscan = off set jit = off set enable_bitmapscan = off set lock_timeout = '500ms'
as $$
declare
  v_error   json := json_build_object('code', 'TASK_EXPIRED', 'message', 'The task was not started before its time ran out.');
  v_expired integer := (select count(*) from end_pending(p_tasks, 'expired', v_error));
  v_strays  tid[];
begin
  if v_expired = cardinality(p_tasks) then
    return v_expired;
  end if;
  v_strays := array(select ctid from ready where expires_at <= now() and task_id = any (p_tasks) for update);
  perform end_pending('{}', 'expired', v_error, v_strays);
  return v_expired + cardinality(v_strays);
end $$;

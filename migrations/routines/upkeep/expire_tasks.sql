-- A row of `ready` that carries its input is found by the place that its task names. Somebody may have moved it by hand, or its task may be gone. Such a row
-- is found by its time, because it would come again with every batch otherwise. Its task is not ended if it is running, pending or ended elsewhere.
create or replace function expire_tasks(p_tasks uuid[]) returns integer
language plpgsql set search_path from current set enable_seqscan = off set jit = off set enable_bitmapscan = off set lock_timeout = '500ms'
as $$
declare
  v_error   json := json_build_object('code', 'TASK_EXPIRED', 'message', 'The task was not started before its time ran out.');
  v_expired integer := (select count(*) from end_pending(p_tasks, 'expired', v_error));
  v_strays  integer;
  v_ended   uuid[];
begin
  if v_expired = cardinality(p_tasks) then
    return v_expired;
  end if;
  with stray as (
    delete from ready where expires_at <= now() and task_id = any (p_tasks) returning task_id, attempt, failures, crashes
  ), stray_ended as (
    insert into ended (task_id, state, attempt, failures, crashes, ended_at, error_code, error)
    select distinct on (task_id) task_id, 'expired', attempt - 1, failures, crashes, now(), v_error ->> 'code', v_error
    from stray where task_state(task_id) is null
    returning task_id
  )
  select (select count(*) from stray), array_agg(task_id) into v_strays, v_ended from stray_ended;
  if v_ended is not null then
    perform tell_waiters(v_ended);
  end if;
  return v_expired + v_strays;
end $$;

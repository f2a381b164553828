-- A task may move between tables while one looks for it, and is then not answered for: the caller asks again for those.
-- Not here, in the same transaction: everybody locks first what is pending, then claims in the order of their owners and ids, then
-- exclusive keys, and so nobody waits in a circle.
--   cancelled   it was not running: ended at once
--   cancelling  it is running: its worker is told, and has until cancel_force_at
--   ended       it had ended already
--   unknown     there is no such task
create or replace function cancel_tasks(p_tasks uuid[], p_grace_ms bigint, p_reason text) returns table (task_id uuid, outcome text)
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_error  json := json_build_object('code', 'TASK_CANCELLED', 'message', coalesce(p_reason, 'Cancelled by request.'));
  v_left   uuid[] := without(p_tasks, '{}');
  v_done   uuid[];
  v_claims bigint[];
  v_tasks  uuid[];
  v_owners uuid[];
begin
  v_done := array(select * from end_pending(v_left, 'cancelled', v_error));
  select claims, tasks, owners into v_claims, v_tasks, v_owners from lock_claims_of(v_left);
  v_done := v_done || array(select * from end_alike(v_claims, v_tasks, v_owners, '{claimed}', 'cancelled', 'cancelled', v_error));
  return query select unnest(v_done), 'cancelled';
  v_left := without(v_left, v_done);

  with told as (
    update running
    set cancel_requested_at = coalesce(cancel_requested_at, now()),
        cancel_reason = coalesce(cancel_reason, p_reason),
        cancel_force_at = coalesce(cancel_force_at, now() + make_interval(secs => p_grace_ms / 1000.0))
    where replica_id = any (v_owners) and claim_id = any (v_claims) and state = 'running'
    returning task_id, replica_id
  ), sent as (
    select notify_all('changed', replica_id::text) from (select distinct replica_id from told) r
  )
  select array_agg(task_id) into v_done from told, (select count(*) from sent) s;
  -- A task that is being cancelled no longer counts as stalled (see find_stalled).
  if v_done is not null then
    perform resolve_alerts_of('task-stalled', v_done::text[]);
    perform tell_of_tasks('cancelling', v_done, null, json_build_object('reason', p_reason));
  end if;
  return query select unnest(v_done), 'cancelling';
  v_left := without(v_left, v_done);

  v_done := array(select task_id from ended where task_id = any (v_left));
  return query select unnest(v_done), 'ended';
  v_left := without(v_left, v_done);

  v_done := array(select l from unnest(v_left) l where not exists (select from task where id = l));
  return query select unnest(v_done), 'unknown';
end $$;

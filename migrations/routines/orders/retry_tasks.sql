--   pending     it had failed: it starts over, with its budgets as new
--   due         it was pending: it need not wait for its time any more
--   taken       it was claimed or running, and p_force says to take it away: its worker's writes are refused from now on
--   held        the same, without p_force: left as it is
--   ended       it completed, was cancelled or has expired: left as it is
--   unrecorded  it has failed, and its row in `task` is missing: left as it is, because nobody knows what to run
--   unknown     there is no such task
create or replace function retry_tasks(p_tasks uuid[], p_force boolean) returns table (task_id uuid, outcome text)
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_error  json := json_build_object('code', 'CLAIM_TAKEN', 'message', 'Taken away by hand, to be run again.');
  v_left   uuid[] := without(p_tasks, '{}');
  v_done   uuid[];
  v_claims bigint[];
  v_tasks  uuid[];
  v_owners uuid[];
  v_queues text[];
  v_priorities smallint[];
begin
  with gone as (
    delete from ended e where e.task_id = any (v_left) and e.state = 'failed' and exists (select from task where id = e.task_id) returning *
  ), past as (
    insert into attempt (claim_id, task_id, replica_id, attempt, claimed_at, started_at, ended_at, outcome, result, error)
    select claim_id, task_id, replica_id, attempt, claimed_at, started_at, ended_at, 'failed', result, error
    from gone where claim_id is not null
  ), back as (
    insert into ready (task_id, queue, priority, run_at, name, attempt, gated, expires_at)
    select t.id, t.queue, t.priority, now(), t.name, one_more(g.attempt), t.exclusive_key is not null or t.rate_key is not null, null
    from gone g join task t on t.id = g.task_id
    returning task_id, queue, priority
  )
  select array_agg(task_id), array_agg(queue), array_agg(priority) into v_done, v_queues, v_priorities from back;
  perform add_lanes(v_queues, v_priorities);
  delete from suspicion where task_id = any (v_done);
  if v_done is not null then
    -- It is raised again if one of them cannot be claimed this time either.
    perform resolve_alerts_of('not-claimable', array(select distinct name from task where id = any (v_done)));
    perform tell_of_tasks('pending', v_done, null, '{"because":"retried"}');
  end if;
  perform ring(v_queues);
  return query select unnest(v_done), 'pending';
  v_left := without(v_left, v_done);

  -- One that waits with its input is due already.
  update ready set run_at = least(run_at, now()) where task_id = any (v_left) and input is null;
  select array_agg(task_id), array_agg(distinct queue) filter (where not is_parked) into v_done, v_queues from pending_of(v_left);
  perform ring(v_queues);
  return query select unnest(v_done), 'due';
  v_left := without(v_left, v_done);

  if p_force then
    select claims, tasks, owners into v_claims, v_tasks, v_owners from lock_claims_of(v_left);
    perform notify_all('changed', o::text) from unnest(v_owners) o;
    v_done := array(select * from end_alike(v_claims, v_tasks, v_owners, '{claimed,running}', 'pending', 'taken', v_error));
    return query select unnest(v_done), 'taken';
  else
    v_done := array(select task_id from running where task_id = any (v_left));
    return query select unnest(v_done), 'held';
  end if;
  v_left := without(v_left, v_done);

  v_done := array(select task_id from ended where task_id = any (v_left) and state <> 'failed');
  return query select unnest(v_done), 'ended';
  v_left := without(v_left, v_done);

  v_done := array(
    select e.task_id from ended e where e.task_id = any (v_left) and e.state = 'failed' and not exists (select from task where id = e.task_id));
  return query select unnest(v_done), 'unrecorded';
  v_left := without(v_left, v_done);

  v_done := array(select l from unnest(v_left) l where not exists (select from task where id = l));
  return query select unnest(v_done), 'unknown';
end $$;

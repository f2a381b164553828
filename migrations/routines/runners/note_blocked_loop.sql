-- A blockage is noted when it is first seen and again as it lasts. Returns its id, and the alert stays open while it lasts.
-- Its tasks are in the order in which they are suspected: those that are past their timeout (p_overdue) first, then the one that began last.
create or replace function note_blocked_loop(
  p_id bigint, p_replica uuid, p_runner uuid, p_claims bigint[], p_tasks uuid[], p_blocked_ms double precision, p_stack text, p_paused_ms double precision, p_message text,
  p_overdue bigint[])
returns bigint
language plpgsql set search_path from current
as $$
declare
  -- One that is open is this one: the reply that named it was lost.
  v_id bigint := coalesce(p_id, (
    select max(id) from blocked_loop where replica_id = p_replica and runner_id is not distinct from p_runner and ended_at is null));
begin
  -- Whoever asks about one of these tasks is not to wait for the beat that tells where it runs.
  if p_runner is not null then
    update running u set runner_id = p_runner
    where replica_id = p_replica and claim_id in (
      select claim_id from running
      where replica_id = p_replica and claim_id = any (p_claims) and runner_id is distinct from p_runner
        and coalesce((claim_id, task_id) in (select * from unnest(p_claims, p_tasks)), false)
      for update skip locked);
  end if;
  if v_id is null then
    insert into blocked_loop (replica_id, runner_id, began_at, seen_at, blocked_ms, stack, paused_ms, tasks)
    select p_replica, p_runner, clock_timestamp() - make_interval(secs => p_blocked_ms / 1000.0), clock_timestamp(), p_blocked_ms, p_stack, p_paused_ms,
           coalesce((select json_agg(json_build_object('claimId', u.claim_id::text, 'taskId', u.task_id, 'name', u.name)
             order by u.claim_id = any (p_overdue) desc, u.claim_id desc) from (
             select claim_id, task_id, name from running
             where replica_id = p_replica and state = 'running'
               and case when p_claims is null then runner_id is null else (claim_id, task_id) in (select * from unnest(p_claims, p_tasks)) end
             order by claim_id = any (p_overdue) desc, claim_id desc limit 20) u), '[]')
    returning id into v_id;
  else
    -- A replica that was taken for dead goes on under another id.
    update blocked_loop set replica_id = p_replica, seen_at = clock_timestamp(), blocked_ms = p_blocked_ms, stack = coalesce(p_stack, stack),
           paused_ms = coalesce(p_paused_ms, paused_ms),
           tasks = coalesce((select json_agg(x.task order by (x.task ->> 'claimId')::bigint = any (p_overdue) desc, x.place)
                             from json_array_elements(tasks) with ordinality as x (task, place)), '[]')
    where id = v_id;
  end if;
  perform note_alert('loop-blocked', coalesce(p_runner, p_replica)::text, p_message,
    json_build_object('blockedLoop', v_id, 'stack', p_stack, 'tasks', (select tasks from blocked_loop where id = v_id)), null, true);
  return v_id;
end $$;

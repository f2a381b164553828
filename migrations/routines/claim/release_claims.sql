-- From claimed back to ready, to the place it had: none of its code ran, so nothing was spent.
-- p_are_unbegun: the owner itself says so, also of those that are on record as running; but whoever was asked to stop one of these
-- is to see it stopped. A claim that somebody else keeps locked fails the call after a while, and the caller goes on with the others.
create or replace function release_claims(p_claims bigint[], p_tasks uuid[], p_owner uuid default null, p_are_unbegun boolean default false) returns setof bigint
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set lock_timeout = '500ms'
as $$
declare
  v_owners   uuid[] := case when p_owner is null then owners() else array[p_owner] end;
  v_released bigint[];
  v_keys     text[];
  v_queues   text[];
  v_priorities smallint[];
  v_tasks    uuid[];
begin
  with gone as (
    delete from running
    where replica_id = any (v_owners) and claim_id = any (p_claims)
      and coalesce((claim_id, task_id) in (select * from unnest(p_claims, p_tasks)), false)
      and (state = 'claimed' or p_are_unbegun and cancel_requested_at is null)
    returning *
  ), put as (
    insert into ready (task_id, queue, priority, run_at, name, attempt, failures, crashes, gated, expires_at)
    select task_id, queue, priority, run_at, name, attempt, failures, crashes, gated or is_suspect(task_id), expires_at from gone
  )
  select array_agg(claim_id), array_agg(exclusive_key) filter (where exclusive_key is not null), array_agg(queue), array_agg(priority), array_agg(task_id)
  into v_released, v_keys, v_queues, v_priorities, v_tasks from gone;
  perform tell_of_tasks('pending', v_tasks, v_released, '{"because":"released"}');
  perform add_lanes(v_queues, v_priorities);
  if v_keys is not null then
    perform ring_for((select let_go from unpark(v_keys)));
  end if;
  perform ring(v_queues);
  return query select unnest(v_released);
end $$;

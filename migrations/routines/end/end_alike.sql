-- Ends these claims all in the same way, where they are (still) with these owners and in p_states. Returns their tasks. The error is
-- one of ours, as in end_pending.
create or replace function end_alike(
  p_claims bigint[], p_tasks uuid[], p_owners uuid[], p_states text[], p_to text, p_outcome text, p_error json) returns setof uuid
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
declare
  v_held record;
begin
  with held as materialized (
    select claim_id, task_id, replica_id from running
    where replica_id = any (p_owners) and claim_id = any (p_claims) and state = any (p_states)
      and coalesce((claim_id, task_id) in (select * from unnest(p_claims, p_tasks)), false)
    order by replica_id, claim_id for update
  )
  select array_agg(claim_id) as claims, array_agg(task_id) as tasks,
         json_agg(json_build_object('claim', claim_id, 'task', task_id, 'replica', replica_id, 'to', p_to, 'outcome', p_outcome, 'error', p_error::text, 'code', p_error ->> 'code')) as outcomes
  into v_held from held;
  if v_held.claims is not null then
    perform end_claims(v_held.claims, v_held.tasks, v_held.outcomes, p_owners);
    return query select unnest(v_held.tasks);
  end if;
end $$;

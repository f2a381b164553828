-- Locks the claims on these tasks, in the order in which everybody locks them. Whoever knows tasks and not claims begins with this.
create or replace function lock_claims_of(p_tasks uuid[], out claims bigint[], out tasks uuid[], out owners uuid[])
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
begin
  select array_agg(claim_id), array_agg(task_id), array_agg(distinct replica_id) into claims, tasks, owners
  from (select claim_id, task_id, replica_id from running where task_id = any (p_tasks) order by replica_id, claim_id for update) u;
end $$;

-- What this replica has, for its own look, which also shows that it is there. Asked by every worker every few seconds, mostly in vain: the plan is kept, and
-- must not become one that reads the whole table because the table was empty when it was made. That the replica is there may be lost in a crash, after
-- which it says so again, so nobody waits for the disk.
create or replace function own_claims(p_replica uuid) returns table (claim_id bigint, task_id uuid, is_cancelled boolean, reason text)
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
begin
  perform set_config('synchronous_commit', 'off', true);
  update replica set seen_at = now() where id = p_replica and status in ('online', 'draining');
  return query select r.claim_id, r.task_id, r.cancel_requested_at is not null, r.cancel_reason from running r where r.replica_id = p_replica;
end $$;

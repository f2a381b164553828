-- What this transaction has claimed for a replica (see the end of claim_tasks).
create or replace function tell_of_claims(p_replica uuid) returns void
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
begin
  perform tell_followers(c.state, array_agg('task ' || c.task_id), array_agg(c.claim_id),
                         array_agg(json_build_object('attempt', c.attempt, 'replicaId', c.replica_id)))
  from running c where c.replica_id = p_replica and c.claimed_at = now() group by c.state;
end $$;

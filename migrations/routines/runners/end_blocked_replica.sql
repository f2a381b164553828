-- The heart's last word before it ends its own process, whose loop is blocked: these attempts have ended, and the replica is
-- dead, so that whoever sweeps next recovers the rest. False: it had been declared dead, or has left.
create or replace function end_blocked_replica(p_replica uuid, p_claims bigint[], p_tasks uuid[], p_outcomes json, p_death json) returns boolean
language plpgsql set search_path from current
as $$
begin
  perform from replica where id = p_replica and status in ('online', 'draining') for update;
  if not found then
    return false;
  end if;
  update heart set is_dead = true where replica_id = p_replica;
  update replica set status = 'dead', died_at = clock_timestamp(), death = p_death where id = p_replica;
  if cardinality(p_claims) > 0 then
    perform end_claims(p_claims, p_tasks, p_outcomes, array[p_replica]);
  end if;
  return true;
end $$;

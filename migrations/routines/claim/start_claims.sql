-- From claimed to running. Durable before any of the task's code runs: that is what makes a claim that was
-- never started safe to give back. `started` are the claims that still hold, those included that an earlier call has started
-- and whose reply was lost: only their owner calls this, and it runs none of their code before it has a reply.
-- A claim that somebody else keeps locked is not started, so that it does not hold up the others.
create or replace function start_claims(p_claims bigint[], p_tasks uuid[], out started text[], out locked text[])
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set lock_timeout = '500ms'
as $$
declare
  v_owners uuid[] := owners();
  v_free   record;
begin
  v_free := lock_free_claims(v_owners, p_claims, p_tasks, p_waits => true);
  update running set state = 'running', started_at = coalesce(started_at, now())
  where replica_id = any (v_owners) and claim_id = any (v_free.claims);
  perform tell_of_tasks('running', v_free.tasks, v_free.claims);
  started := coalesce(v_free.claims, '{}');
  locked := v_free.locked;
end $$;

-- Called inside the user's transaction: fails at once where the claim is lost already, and again at commit. There is one check for
-- each claim, however often it is asked for. A claim that was only guarded may be completed later in the same transaction.
create or replace function guard_claim(p_claim bigint, p_task uuid, p_outcome json) returns void
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
begin
  perform from running
  where replica_id = any ((select owners(false))::uuid[]) and claim_id = p_claim and task_id = p_task and state = 'running';
  if not found then
    raise exception 'claim % no longer holds', p_claim using errcode = 'EB001';
  end if;
  -- The transaction may have set its constraints to immediate before.
  set constraints commit_check_at_commit deferred;
  insert into commit_check (claim_id, task_id, outcome) values (p_claim, p_task, p_outcome) on conflict do nothing;
  if found or p_outcome is null then
    return;
  end if;
  update commit_check set outcome = coalesce(outcome, p_outcome)
  where xact = pg_current_xact_id() and claim_id = p_claim
    and (outcome is null or is_same_json(outcome ->> 'result', p_outcome ->> 'result'));
  if not found then
    raise exception 'claim % was completed in this transaction before, with another result', p_claim using errcode = 'EB007';
  end if;
end $$;

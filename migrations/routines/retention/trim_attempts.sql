-- A task may be tried for ever: one that snoozes every minute, for example. Its first 10 attempts stay, and its newest 100. The others leave,
-- with what they said of themselves. end_claims calls this at every fiftieth attempt, so up to 150 of the newest are on record. Which are the
-- newest is known by their claims, because at the limit of its counter a task has many attempts of one number.
create or replace function trim_attempts(p_tasks uuid[]) returns void
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
declare
  v_claims bigint[];
begin
  with newest as (
    select task_id, (array_agg(claim_id order by claim_id desc))[100] as oldest_claim from attempt where task_id = any (p_tasks) group by task_id
  ), gone as (
    delete from attempt a using newest n where a.task_id = n.task_id and a.attempt > 10 and a.claim_id < n.oldest_claim returning a.claim_id
  )
  select array_agg(claim_id) into v_claims from gone;
  delete from progress where claim_id = any (v_claims);
  delete from late where task_id = any (p_tasks) and claim_id = any (v_claims);
end $$;

-- Outcomes of claims that do not hold: `repeat` where this very outcome was written before and the reply was lost; kept as
-- `late` where the claim had been lost. Each says besides whose it is: { claim, task, replica, to, outcome, confirm, result, error }.
-- A task that completed in a transaction with an old snapshot (repeatable read) could not see which tasks wait for its exclusive key by then.
-- So that is looked at again here, where its worker asks whether the transaction has committed.
create or replace function refuse_outcomes(p_outcomes json) returns table (claim bigint, verdict text)
language plpgsql set search_path from current
as $$
declare
  v_keys text[] := array(
    select t.exclusive_key from json_to_recordset(p_outcomes) as x (task uuid, confirm boolean) join task t on t.id = x.task
    where x.confirm and t.exclusive_key is not null);
begin
  if v_keys <> '{}' then
    perform ring_for((select let_go from unpark(v_keys)));
  end if;
  return query
  with o as materialized (
    select x.* from json_to_recordset(p_outcomes) as x (
      claim bigint, task uuid, replica uuid, "to" text, outcome text, confirm boolean, result text, error text)
  ), judged as (
    select o.*, exists (
        select from ended e
        where e.task_id = o.task and e.claim_id = o.claim
          and (e.state = o."to" and e.result::text is not distinct from o.result and e.error::text is not distinct from o.error
               or o."to" = 'pending' and e.state = 'cancelled' and right(e.error::text, char_length(end_of_cancelled(o.error))) = end_of_cancelled(o.error)
               or o.confirm and e.state = 'completed')
      ) or exists (
        select from attempt a
        where a.claim_id = o.claim and a.task_id = o.task and a.outcome = o.outcome and a.error::text is not distinct from o.error
      ) as is_repeat
    from o
  ), kept as (
    insert into late (claim_id, task_id, replica_id, outcome, result, error)
    select j.claim, j.task, j.replica, j.outcome, j.result::json, j.error::json from judged j where not j.is_repeat
  )
  select j.claim, case when j.is_repeat then 'repeat' else 'late' end from judged j;
end $$;

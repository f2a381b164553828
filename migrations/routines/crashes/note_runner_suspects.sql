-- Notes the crashes that these attempts tell of, if their claims hold, and their tasks as suspects, if they run again. Those are gated from then on, so
-- that whoever claims them next asks whether it may (see admit).
create or replace function note_runner_suspects(p_claims bigint[], p_tasks uuid[], p_outcomes json) returns void
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
begin
  -- In the order in which everybody locks them.
  perform from running where task_id = any (p_tasks) and claim_id = any (p_claims) order by replica_id, claim_id for update;
  with told as (
    select x.task, x.claim, x."to" = 'pending' as runs_again, c.*
    from json_to_recordset(p_outcomes) as x (claim bigint, task uuid, "to" text, crash json)
    cross join json_to_record(x.crash) as c (id uuid, suspects integer, "isApart" boolean)
    join running u on u.task_id = x.task and u.claim_id = x.claim
    where x.crash is not null
  ), crashed as (
    insert into crash (replica_id, suspects, most, with_most) select distinct id, suspects, 0, suspects from told on conflict do nothing
  ), noted as (
    insert into suspicion (task_id, replica_id, is_charged, is_apart) select task, id, false, "isApart" from told where runs_again
    on conflict do nothing
  )
  update running u set gated = true from told t where t.runs_again and u.task_id = t.task and u.claim_id = t.claim and not u.gated;
end $$;

-- The rights of a transaction of the user's own: checked when it commits, not before, so that a process that
-- is paused in the middle of it does not keep a lock on its claim, and recovery need not wait for it.
--
-- The first check of a transaction does all of them, so that claims are locked in the order in which everybody locks them, and keys after
-- them, whatever the order in which they were asked for. Under repeatable read and serializable the claims are looked for in the
-- transaction's old snapshot: what has changed since fails it (40001).
create or replace function check_at_commit() returns trigger
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
declare
  v_all  record;
  v_held bigint[];
  v_lost bigint;
begin
  with these as (
    delete from commit_check where xact = pg_current_xact_id() returning *
  )
  select array_agg(claim_id) as claims, array_agg(task_id) as tasks, bool_or(asked_at = statement_timestamp()) as are_alone,
         array_agg(claim_id) filter (where outcome is not null) as ended, array_agg(task_id) filter (where outcome is not null) as ended_tasks,
         json_agg(outcome) filter (where outcome is not null) as outcomes
  into v_all from (select * from these order by claim_id) t;
  if v_all.claims is null then
    return null;
  end if;
  -- The statement that asked is the one that commits. So it was not in a transaction with the writes that it should guard.
  if v_all.are_alone then
    raise exception 'there is no transaction that could be checked when it commits' using errcode = 'EB006';
  end if;
  -- Claims that only have to hold are locked against whoever would end them. If others end here too, all are locked for that, in one order.
  -- The same query is here twice, because the strength of a lock cannot be a parameter.
  if v_all.ended is null then
    v_held := array(
      select claim_id from running
      where replica_id = any ((select owners(false))::uuid[]) and claim_id = any (v_all.claims) and state = 'running'
        and coalesce((claim_id, task_id) in (select * from unnest(v_all.claims, v_all.tasks)), false)
      order by replica_id, claim_id for share);
  elsif cardinality(v_all.ended) < cardinality(v_all.claims) then
    v_held := array(
      select claim_id from running
      where replica_id = any ((select owners(false))::uuid[]) and claim_id = any (v_all.claims) and state = 'running'
        and coalesce((claim_id, task_id) in (select * from unnest(v_all.claims, v_all.tasks)), false)
      order by replica_id, claim_id for update);
  end if;
  select min(c) into v_lost from unnest(v_all.claims) c where c <> all (v_held);
  if v_lost is not null then
    raise exception 'claim % no longer holds: the transaction that it guards must not commit', v_lost using errcode = 'EB001';
  end if;
  if v_all.ended is null then
    return null;
  end if;
  v_lost := end_claims(v_all.ended, v_all.ended_tasks, v_all.outcomes) -> 'unknown' ->> 0;
  if v_lost is not null then
    raise exception 'claim % no longer holds: its task cannot be completed by this transaction', v_lost using errcode = 'EB001';
  end if;
  return null;
end $$;

drop trigger if exists commit_check_at_commit on commit_check;
create constraint trigger commit_check_at_commit after insert on commit_check
deferrable initially deferred for each row execute function check_at_commit();
-- The trigger also fires with session_replication_role = replica. Otherwise a guard would check nothing there, and nobody would notice.
alter table commit_check enable always trigger commit_check_at_commit;

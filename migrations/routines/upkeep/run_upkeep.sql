-- All of it in one statement. Where that fails, its parts are done one by one (src/upkeep/upkeep-in-parts.ts). It passes over
-- rows that are locked, and waits for nothing else for long: it has the locks of exclusive keys, for which workers wait.
create or replace function run_upkeep(p_batch integer) returns table (expired integer, unparked integer, cancelled integer)
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
begin
  if not pg_try_advisory_xact_lock(gate_lock_id('service', 'upkeep')) then
    return;
  end if;
  perform retire_lanes(); -- before anything else is written
  -- First the only one that waits for locks, those of exclusive keys; so nobody waits in a circle.
  select force_cancels(array_agg(c.claim_id), array_agg(c.task_id), array_agg(distinct c.replica_id)) into cancelled from overdue_cancels(p_batch) c;
  expired := expire_tasks(array(select * from overdue_tasks(p_batch)));
  unparked := unpark_every_kind(p_batch);
  return next;
end $$;

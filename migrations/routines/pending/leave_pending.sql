-- Takes tasks out of waiting, wherever each of them waits, and returns what is known of them only there. Whoever does not claim, park or let go what
-- waits takes it out by this. p_rows: these rows of `ready`, too, whatever their tasks say, since a row may be in another place than its task
-- names, or without a task.
create or replace function leave_pending(p_tasks uuid[], p_rows tid[] default '{}')
returns table (task_id uuid, attempt integer, failures integer, crashes integer)
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  return query
    with by_id as (
      delete from ready where task_id = any (p_tasks) and input is null returning task_id, attempt, failures, crashes
    ), by_place as (
      delete from ready r using task t where t.id = any (p_tasks) and waits_at(r, t) returning r.task_id, r.attempt, r.failures, r.crashes
    ), behind_key as (
      delete from parked where task_id = any (p_tasks) returning task_id, attempt, failures, crashes
    ), by_row as (
      delete from ready where ctid = any (p_rows) returning task_id, attempt, failures, crashes
    )
    select * from by_id union all select * from by_place union all select * from behind_key union all select * from by_row;
end $$;

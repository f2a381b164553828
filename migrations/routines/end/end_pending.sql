-- Tasks that were never claimed, or are not claimed now: cancelled or expired where they wait. Returns those it ended. The error is
-- one of ours, which can be taken apart.
create or replace function end_pending(p_tasks uuid[], p_state text, p_error json) returns setof uuid
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
begin
  return query
    with gone as (
      delete from ready where task_id = any (p_tasks) and input is null returning task_id, attempt, failures, crashes
    ), gone_from_place as (
      delete from ready r using task t where t.id = any (p_tasks) and waits_at(r, t) returning r.task_id, r.attempt, r.failures, r.crashes
    ), unparked as (
      delete from parked where task_id = any (p_tasks) returning task_id, attempt, failures, crashes
    )
    insert into ended (task_id, state, attempt, failures, crashes, ended_at, error_code, error)
    select task_id, p_state, attempt - 1, failures, crashes, now(), p_error ->> 'code', p_error
    from (select * from gone union all select * from gone_from_place union all select * from unparked) g
    returning ended.task_id;
  perform tell_waiters(p_tasks);
end $$;

-- Ends tasks that are not claimed, where they wait: cancelled, expired, or failed because nobody can claim them. Returns those that it ended. The
-- error is one of ours, which can be taken apart. p_rows: rows of `ready` that go besides (see leave_pending). The task of such a row ends only if it
-- is not running, pending or ended elsewhere: then the row is one too many.
create or replace function end_pending(p_tasks uuid[], p_state text, p_error json, p_rows tid[] default '{}') returns setof uuid
language plpgsql set search_path from current
as $$
#variable_conflict use_column
declare
  v_gone  record;
  v_ended uuid[];
begin
  select array_agg(task_id) as tasks, array_agg(attempt) as attempts, array_agg(failures) as failures, array_agg(crashes) as crashes
  into v_gone from leave_pending(p_tasks, p_rows);
  if v_gone.tasks is null then
    return;
  end if;
  with finals as (
    insert into ended (task_id, state, attempt, failures, crashes, ended_at, error_code, error)
    select distinct on (task_id) task_id, p_state, attempt - 1, failures, crashes, now(), p_error ->> 'code', p_error
    from unnest(v_gone.tasks, v_gone.attempts, v_gone.failures, v_gone.crashes) as g (task_id, attempt, failures, crashes)
    where p_rows = '{}' or task_state(task_id) is null
    returning task_id
  )
  select array_agg(task_id) into v_ended from finals;
  if v_ended is not null then
    perform after_end(v_ended);
    return query select unnest(v_ended);
  end if;
end $$;

-- From parked to ready; the rows are locked, and so is their key. Returns where they are now. Whoever does not claim them at once
-- rings for them.
create or replace function make_ready(p_rows tid[]) returns tid[]
language plpgsql set search_path from current
as $$
declare
  v_freed      tid[];
  v_queues     text[];
  v_priorities smallint[];
begin
  with gone as (
    delete from parked where ctid = any (p_rows) returning *
  ), put as (
    insert into ready (task_id, queue, priority, run_at, name, attempt, failures, crashes, gated, expires_at)
    select task_id, queue, priority, run_at, name, attempt, failures, crashes, true, expires_at from gone
    returning ctid as row_id, queue, priority
  )
  select coalesce(array_agg(row_id), '{}'), array_agg(queue), array_agg(priority) into v_freed, v_queues, v_priorities from put;
  perform add_lanes(v_queues, v_priorities);
  return v_freed;
end $$;

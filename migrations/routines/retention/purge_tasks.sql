-- A task that was retried in between, and has ended again, stays.
create or replace function purge_tasks(p_tasks uuid[], p_ended_at timestamptz[]) returns integer
language plpgsql set search_path from current set enable_seqscan = off set jit = off set lock_timeout = '500ms'
as $$
declare
  v_locked uuid[] := lock_ended(p_tasks);
  v_gone   uuid[] := array(
    select e.task_id from unnest(p_tasks, p_ended_at) t (id, ended_at) join ended e on e.task_id = t.id and e.ended_at = t.ended_at
    where e.task_id = any (v_locked));
begin
  perform delete_ended(v_gone);
  return cardinality(v_gone);
end $$;

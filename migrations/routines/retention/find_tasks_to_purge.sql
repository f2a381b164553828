-- The same in two steps, for when a task of the batch is refused: the tasks of the batch, and then some of them. None while somebody else purges.
create or replace function find_tasks_to_purge(p_max_age_ms bigint, p_max_count bigint, p_batch integer) returns table (task_id uuid, ended_at timestamptz)
language plpgsql set search_path from current set enable_seqscan = off set jit = off set lock_timeout = '500ms'
as $$
begin
  if not pg_try_advisory_xact_lock(gate_lock_id('service', 'purge')) then
    return;
  end if;
  return query
    select e.task_id, e.ended_at
    from ended_to_purge(p_max_age_ms, p_max_count, p_batch) p cross join unnest(p.tasks) t (id) join ended e on e.task_id = t.id;
end $$;

-- Which of these tasks are pending: a row for each, in whichever way it waits. Without a search_path of its own, so that it becomes a part of the
-- statement that asks it. The view `pending` has the same rows for those that do not ask for certain tasks.
create or replace function pending_of(p_tasks uuid[]) returns table (task_id uuid, queue text, is_parked boolean)
language sql stable
as $$
  select r.task_id, r.queue, false from ready r where r.task_id = any (p_tasks) and r.input is null
  union all
  select r.task_id, r.queue, false from task t join ready r on waits_at(r, t) where t.id = any (p_tasks)
  union all
  select p.task_id, p.queue, true from parked p where p.task_id = any (p_tasks)
$$;

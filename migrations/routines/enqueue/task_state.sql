create or replace function task_state(p_task uuid) returns text
language sql stable set search_path from current
as $$
  select coalesce(
    (select state from ended where task_id = p_task),
    (select state from running where task_id = p_task),
    (select 'pending' from ready where task_id = p_task and input is null),
    (select 'pending' from task t join ready r on waits_at(r, t) where t.id = p_task),
    (select 'pending' from parked where task_id = p_task))
$$;

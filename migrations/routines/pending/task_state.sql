create or replace function task_state(p_task uuid) returns text
language sql stable set search_path from current
as $$
  select coalesce(
    (select state from ended where task_id = p_task),
    (select state from running where task_id = p_task),
    (select 'pending' from pending_of(array[p_task]) limit 1))
$$;

-- Whether this row of `ready`, one with its input, is that of this task: by its place. Becomes a part of the statement that asks.
create or replace function waits_at(p_row ready, p_task task) returns boolean
language sql immutable
as $$
  select p_row.queue = p_task.queue and p_row.priority = p_task.priority and p_row.run_at = p_task.run_at and p_row.task_id = p_task.id
    and p_row.input is not null
$$;

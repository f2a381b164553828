-- At how many crashes this task was together with others. Volatile: a claim may follow the end of the task's last attempt in the same statement.
create or replace function suspicion_of(p_task uuid) returns integer
language plpgsql volatile set search_path from current
as $$
begin
  return (select count(*) from suspicion where task_id = p_task and not is_charged);
end $$;

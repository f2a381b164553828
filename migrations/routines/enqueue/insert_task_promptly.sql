-- The same in a hurry: where a worker sleeps, the task that it is woken for can be seen before it is durable, and the caller is told
-- when it is. So the worker's way to its claim and the caller's wait for the disk take place at the same time.
-- The log is written in order: the commit of the claim waits for everything before it, so that no handler starts for a task that
-- could be lost; and so does the second commit here, because locking a row writes to the log.
--
-- Where commits do not wait anyway, by the settings of the server's owner, there is nothing to hurry. Made by its text, because a
-- procedure with a search_path of its own cannot commit.
do $do$
begin
  execute format($format$
    create or replace procedure insert_task_promptly(p_id uuid, p_name text, p_queue text, p_priority smallint, p_input json)
    language plpgsql
    as $$
    begin
      if %1$I.insert_task(p_id, p_name, p_queue, p_priority, p_input) and pg_catalog.current_setting('synchronous_commit') <> 'off' then
        perform pg_catalog.set_config('synchronous_commit', 'off', true);
        commit;
        perform from %1$I.task where id = p_id for key share;
      end if;
    end $$
  $format$, current_schema());
end $do$;

-- What waits, whatever it waits for: a row for each pending task.
create or replace view pending as
select task_id, queue, priority, run_at, name, attempt, failures, crashes, expires_at, false as is_parked from ready
union all
select task_id, queue, priority, run_at, name, attempt, failures, crashes, expires_at, true from parked;

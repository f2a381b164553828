-- Tasks in idle or paused queues expire too, not only those that a claim meets. What is locked is passed over.
create or replace function overdue_tasks(p_batch integer) returns setof uuid
language sql set search_path from current
as $$
  select unnest(
    array(select task_id from ready where expires_at <= now() order by expires_at limit p_batch for update skip locked)
    || array(select task_id from parked where expires_at <= now() order by expires_at limit p_batch for update skip locked))
$$;

-- Tasks whose worker was told to cancel them, and neither did nor said anything until the grace and a margin were over.
-- What is locked is passed over.
create or replace function overdue_cancels(p_batch integer) returns table (claim_id bigint, task_id uuid, replica_id uuid)
language sql set search_path from current
as $$
  select claim_id, task_id, replica_id from running where cancel_force_at < now() - interval '5 seconds' order by cancel_force_at limit p_batch
  for update skip locked
$$;

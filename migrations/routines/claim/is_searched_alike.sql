-- Whether a search that has seen everything has seen this queue, too: not one that was at its limit or was paused then.
create or replace function is_searched_alike(p_queue queue, p_seen timestamptz) returns boolean
language sql immutable
as $$
  select p_queue.name is null
    or p_queue.concurrency is null and p_queue.rate_limit is null and coalesce(p_queue.changed_at < p_seen, true)
$$;

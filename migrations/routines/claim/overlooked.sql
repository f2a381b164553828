-- Tasks that no search has seen although they are due since before p_seen: put in by a transaction that took long, or for a time
-- in the past, or put back where they had been. Of the first of each lane, a time from which a search finds it: a microsecond before
-- its own, since a search looks for what sorts behind its cursor, and an id may sort before all others. Beside the claims, since it may
-- have to walk over everything that waits for others who know it.
create or replace function overlooked(p_names text[], p_queues text[], p_seen timestamptz) returns table (lane_id uuid, run_at timestamptz)
language sql stable set search_path from current
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  select l.id, f.run_at - interval '1 microsecond'
  from lane l
  left join queue q on q.name = l.queue
  cross join lateral (
    select r.run_at from ready r
    where r.queue = l.queue and r.priority = l.priority and r.run_at <= p_seen and r.name = any (p_names)
    order by r.run_at, r.task_id limit 1
  ) f
  where p_seen is not null and q.paused is not true and is_searched_alike(q, p_seen) and (p_queues is null or l.queue = any (p_queues))
  limit 32
$$;

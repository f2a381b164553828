-- Whoever puts rows into `ready` calls this afterwards, in a statement of its own. A lane that is leaving does not count: it may be
-- gone by the time of the commit (see retire_lanes, which waits for every transaction that may have seen the lane as staying;
-- that is why the caller must have its transaction id before this look, and it has one, by its own writes). Where the transaction
-- keeps an old snapshot, nothing that it sees is certain to be there still, so it has to keep its lane.
create or replace function add_lanes(p_queues text[], p_priorities smallint[]) returns void
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  insert into lane (queue, priority)
  select u.queue, u.priority from (select distinct * from unnest(p_queues, p_priorities)) as u (queue, priority)
  where case when sees_the_past() then not keep_lane(u.queue, u.priority)
    -- Not as `exists`, which might be planned as a hash of all lanes.
    else (select true from lane l where l.queue = u.queue and l.priority = u.priority and not l.is_leaving limit 1) is null end;
end $$;

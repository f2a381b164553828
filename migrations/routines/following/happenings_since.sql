-- What has happened to a process's topics and could not be seen in p_seen, told or not (see replica_changes). A transaction that stays open costs one probe, and not a walk over all
-- that has happened since it began. Each is then looked up among the topics: a join might go through what happened once for each topic.
create or replace function happenings_since(p_follower uuid, p_seen pg_snapshot, p_limit integer) returns setof happening
language sql stable set search_path from current
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  select h.* from (
    select * from happening where xact >= pg_snapshot_xmax(p_seen)
    union all
    select * from happening where xact = any (array(select pg_snapshot_xip(p_seen)))
    union all
    select * from replica_changes(p_seen)
  ) h
  where (select f.left_at is null from followed f where f.topic = h.topic and f.follower = p_follower)
  order by h.id limit p_limit
$$;

-- What has happened to each of these topics after a position. `place` says which of them it is. For those who come back with a position.
-- Rows that p_before could not see, without those that p_until could see and whose id is p_id or lower: they were told. All that has happened is
-- read once, and not once for each topic.
create or replace function happenings_after(p_topics text[], p_before pg_snapshot[], p_until pg_snapshot[], p_ids bigint[], p_limit integer)
returns table (place bigint, id bigint, xact xid8, at timestamptz, kind text, claim_id bigint, details json)
language sql stable set search_path from current set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_nestloop = off
as $$
  with back as materialized (
    select * from unnest(p_topics, p_before, p_until, p_ids) with ordinality r (topic, before, until, id, place)
  )
  select r.place, h.id, h.xact, h.at, h.kind, h.claim_id, h.details
  from back r
  join happening h on h.topic = r.topic
  where h.xact >= (select pg_snapshot_xmin(b) from unnest(p_before) b order by 1 limit 1)
    and not pg_visible_in_snapshot(h.xact, r.before)
    and (not pg_visible_in_snapshot(h.xact, r.until) or h.id > r.id)
  union all
  select r.place, c.id, c.xact, c.at, c.kind, c.claim_id, c.details
  from back r
  cross join lateral replica_changes(r.before) c
  where r.topic like 'replica %' and c.topic = r.topic and (not pg_visible_in_snapshot(c.xact, r.until) or c.id > r.id)
  order by id limit p_limit
$$;

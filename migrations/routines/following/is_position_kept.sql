-- Whether all that has happened to a topic since this snapshot was written, and is still there.
create or replace function is_position_kept(p_topic text, p_before pg_snapshot) returns boolean
language sql stable set search_path from current set enable_seqscan = off set jit = off
as $$
  select is_seen_kept(p_before) and exists (
    select from followed f join follower l on l.id = f.follower
    where f.topic = p_topic and l.until > clock_timestamp() and pg_visible_in_snapshot(f.since, p_before))
$$;

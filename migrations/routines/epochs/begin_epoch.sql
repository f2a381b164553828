-- A new epoch begins where the last one's end may have cost the server part of its memory: the last claims, and how far the sequence of
-- their ids had come. So the sequence goes on from the microseconds since 2020. Nobody draws a million ids a second, so it has never come
-- as far as that, whatever was forgotten; and for 285 years ids stay below 2^53, up to which a number in JavaScript is exact.
-- Rows that came by logical replication may have larger ids than this server has drawn: they count as drawn.
-- Whoever sees the marker sees the jump. Whoever begins an epoch at the same time waits for the first. The function runs as the schema's owner,
-- because setval() needs more rights than the rest.
create or replace function begin_epoch() returns void
language plpgsql security definer set search_path from current
as $$
declare
  v_floor bigint := floor(extract(epoch from clock_timestamp() - timestamptz '2020-01-01 00:00:00+00') * 1000000);
  v_last  bigint := greatest((select last_value from claim_id), largest_claim_on_record());
begin
  insert into epoch_marker as m (home) values (pg_relation_filepath('epoch_marker'))
  on conflict (is_only) do update set marker = excluded.marker, server_start = excluded.server_start, home = excluded.home
  where m.server_start <> excluded.server_start or m.home <> excluded.home or m.writer is distinct from m.xmin;
  if not found then
    return;
  end if;
  -- Where the clock was set back, the sequence is ahead of it, and the ids that were forgotten lie just behind the last one that is known.
  -- So the sequence jumps over more ids than a lost piece of memory can hold. The jump is drawn, so that two such jumps differ.
  perform setval('claim_id', greatest(v_floor, v_last + case when v_last < v_floor then 0 else 1000000000 + floor(random() * 1000000000)::bigint end));
  update epoch_marker set writer = xmin, last_claim = (select last_value from claim_id);
end $$;

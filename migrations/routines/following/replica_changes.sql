-- Changes of replicas that p_before could not see and that nobody has told, as happenings: the last change of each replica. For example, a replica
-- was declared dead by a transaction that began before somebody followed and committed after that. They come behind all that was told.
-- What a restored copy of the table says of another server's transactions is left out. The id of each is above those of all happenings, another one for
-- each change, and the same whenever it is read: so a position behind it names it.
create or replace function replica_changes(p_before pg_snapshot) returns setof happening
language sql stable set search_path from current
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  select 4611686018427387904 + (hashtextextended(r.id || ' ' || r.changed_in, 0) & 4611686018427387903), r.changed_in, clock_timestamp(), t.topic, c.kind, null::bigint,
         json_build_object('replicaId', r.id, 'hostname', r.hostname)
  from replica r
  cross join lateral replica_change(r.status, r.came_back_at) c (kind)
  cross join lateral (values ('replica ' || r.id), ('replica *')) t (topic)
  where r.changed_in >= pg_snapshot_xmin(p_before)
    and not pg_visible_in_snapshot(r.changed_in, p_before) and pg_visible_in_snapshot(r.changed_in, pg_current_snapshot())
    and not exists (
      select from happening h
      where h.xact = r.changed_in and h.topic = t.topic and h.kind = c.kind and h.details ->> 'replicaId' = r.id::text)
$$;

-- The keys of all session locks that are held: looked up once for all hearts.
create or replace function held_sessions() returns bigint[]
language sql volatile
as $$
  select coalesce(array_agg((l.classid::bigint << 32) | l.objid::bigint), '{}') from pg_locks l
  where l.locktype = 'advisory' and l.objsubid = 1 and l.granted
    and l.database = (select oid from pg_database where datname = current_database())
$$;

-- The owners of unfinished tasks that are not alive: dead, gone, or not on record at all. Looked for where they would be in the
-- index: below the first who is alive, between each and the next, above the last. One probe for each of these, however many
-- tasks there are, and where it finds one, on to the next until that is alive again.
--
-- While somebody has an old snapshot, though, the index keeps an entry for every task that has gone through since, and the probes
-- walk over those of all owners that have left. So that this does not become all that the server does, it is done for a twentieth
-- of the time at the most, by all reapers together. It is done at once where something was found the last time, or somebody was
-- declared dead of late (a verdict takes a moment to commit); and always where it takes less than 20 ms: then nothing is written,
-- so that a sweep need not wait for the disk.
create or replace function absent_owners() returns table (replica_id uuid, status text)
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set lock_timeout = '500ms'
as $$
declare
  v_started timestamptz := clock_timestamp();
  v_looked  timestamptz;
begin
  if exists (
    select from listening l
    where v_started between l.looked_at and l.looked_at + 20 * l.look_took
      and not exists (select from replica r where r.status = 'dead' and r.died_at > l.looked_at - interval '5 seconds'))
  then
    return;
  end if;
  return query
    with recursive living (id, next_id) as materialized (
      select r.id, lead(r.id) over (order by r.id) from replica r where r.status in ('online', 'draining')
    ), owner (id) as (
      (
        (select u.replica_id from running u order by u.replica_id limit 1)
        union all
        select first.id from living l cross join lateral (
          select u.replica_id as id from running u where u.replica_id > l.id and u.replica_id < l.next_id order by u.replica_id limit 1) first
        union all
        (select u.replica_id from running u
         where u.replica_id > (select l.id from living l where l.next_id is null) order by u.replica_id limit 1)
      )
      union -- the next may be one that was found from where it is
      select (select u.replica_id from running u where u.replica_id > o.id order by u.replica_id limit 1)
      from owner o where not exists (select from replica r where r.id = o.id and r.status in ('online', 'draining'))
    )
    select o.id, coalesce(r.status, 'missing') from owner o left join replica r on r.id = o.id
    where o.id is not null and (r.id is null or r.status in ('dead', 'offline'));
  v_looked := case when found or clock_timestamp() - v_started < interval '20 milliseconds' then '-infinity' else clock_timestamp() end;
  update listening set looked_at = v_looked, look_took = clock_timestamp() - v_started where looked_at <> v_looked;
end $$;

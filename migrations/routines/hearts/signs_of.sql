-- Vitals as a beat writes them and as everybody reads them. Without their names, which would be half of it, and as whole numbers
-- of one width, so that nothing moves and only what has changed goes into the WAL: sizes in pages of 4 kB, delays in tenths of a
-- millisecond, cores in hundredths. What changes least comes first.
create or replace function signs_of(p_vitals json) returns integer[]
language sql immutable
as $$
  select array_agg(case when s.n > 2147483647 then 2147483647 else s.n end::integer order by v.place)
  from (values (1, 'memoryLimit', 1 / 4096.0), (2, 'groupLimit', 1 / 4096.0), (3, 'inHand', 1), (4, 'groupUsed', 1 / 4096.0), (5, 'rss', 1 / 4096.0),
               (6, 'heapUsed', 1 / 4096.0), (7, 'loopP50Ms', 10), (8, 'loopP99Ms', 10), (9, 'loopMaxMs', 10), (10, 'blockedForMs', 1), (11, 'cpu', 100)
       ) v (place, name, times)
  cross join lateral (select round((p_vitals ->> v.name)::numeric * v.times) as n) s
  where p_vitals is not null
$$;

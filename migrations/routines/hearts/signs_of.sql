-- Vitals as a beat writes them and as everybody reads them. Without their names, which would be half of it, and as whole numbers
-- of one width, so that nothing moves and only what has changed goes into the WAL: sizes in pages of 4 kB, delays in tenths of a
-- millisecond, cores in hundredths. What changes least comes first.
create or replace function signs_of(p_vitals json) returns integer[]
language sql immutable
as $$
  select array_agg(case when s.n > 2147483647 then 2147483647 else s.n end::integer order by v.place)
  from (values (1, 'memoryLimit', 1 / 4096.0), (2, 'inHand', 1), (3, 'rss', 1 / 4096.0), (4, 'heapUsed', 1 / 4096.0), (5, 'loopP50Ms', 10),
               (6, 'loopP99Ms', 10), (7, 'loopMaxMs', 10), (8, 'blockedForMs', 1), (9, 'cpu', 100)) v (place, name, times)
  cross join lateral (select round((p_vitals ->> v.name)::numeric * v.times) as n) s
  where p_vitals is not null
$$;

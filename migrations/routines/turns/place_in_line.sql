-- How far back a replica stands in the line of those who would sweep, should the one before them fail: 1 is next. The order is that of
-- their ids, in a ring that begins behind whoever swept last. Counted up to p_most, by the index of those who are alive.
create or replace function place_in_line(p_replica uuid, p_swept_by uuid, p_most integer) returns integer
language sql stable set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
  select least(1 + count(*), p_most)::integer from (
    (select from replica r
     where r.status in ('online', 'draining') and r.id > p_swept_by
       and r.id < case when p_replica > p_swept_by then p_replica else 'ffffffff-ffff-ffff-ffff-ffffffffffff' end
     limit p_most)
    union all
    (select from replica r where r.status in ('online', 'draining') and p_replica < p_swept_by and r.id < p_replica limit p_most)
  ) before
$$;

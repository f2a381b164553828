-- Replica by replica, by the one index that there is: another would be written with every beat that is remembered. Returns how many left.
create or replace function purge_beats(p_max_age_ms double precision, p_batch integer) returns integer
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
declare
  v_replica uuid := '00000000-0000-0000-0000-000000000000';
  v_beats   tid[];
  v_gone    integer := 0;
begin
  loop
    select replica_id into v_replica from beat_history where replica_id > v_replica order by replica_id limit 1;
    exit when not found or v_gone >= p_batch;
    v_beats := array(
      select ctid from beat_history where replica_id = v_replica and beat_at < now() - make_interval(secs => p_max_age_ms / 1000)
      limit p_batch - v_gone for update skip locked);
    delete from beat_history where ctid = any (v_beats);
    v_gone := v_gone + cardinality(v_beats);
  end loop;
  return v_gone;
end $$;

create or replace function purge_if_due(p_max_age_ms bigint, p_max_count bigint, p_every_ms bigint, p_batch integer) returns integer
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_purged integer;
begin
  -- One at a time, and in a transaction that has the lock of no exclusive key: nobody waits for one that purges.
  if not pg_try_advisory_xact_lock(gate_lock_id('service', 'purge')) then
    return 0;
  end if;
  -- Not a time to come, should the server's clock have been set back.
  if exists (
    select from upkeep
    where purged_at between now() - make_interval(secs => p_every_ms / 1000.0) and now()
      and (p_max_age_ms is null or max_age_ms <= p_max_age_ms) and (p_max_count is null or max_count <= p_max_count))
  then
    return 0;
  end if;
  v_purged := purge_ended(p_max_age_ms, p_max_count, p_batch);
  -- A full batch: there is more.
  update upkeep set purged_at = case when v_purged < p_batch then now() else '-infinity' end, max_age_ms = p_max_age_ms, max_count = p_max_count;
  return v_purged;
end $$;

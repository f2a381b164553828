-- For a transaction that keeps an old snapshot: whether a lane that it sees is still there, and will be when it commits. The lane's row is
-- locked for that. Where the row was deleted since the snapshot, the lock fails (40001). A row that is leaving since then can be locked, and
-- then does not go (see retire_lanes). A row that is being deleted counts as gone. Such a row is waited for in one case, whatever is said
-- about locks that are to be skipped: where the snapshot has an earlier version of it. Hence the short patience.
create or replace function keep_lane(p_queue text, p_priority smallint) returns boolean
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set lock_timeout = '50ms'
as $$
declare
  c_most constant integer := 8; -- of an old snapshot, all but a few may be gone
  v_lane uuid;
begin
  for v_lane in select id from lane where queue = p_queue and priority = p_priority and not is_leaving limit c_most loop
    begin
      perform from lane where id = v_lane for key share skip locked;
      if found then
        return true;
      end if;
    exception when serialization_failure or lock_not_available then
      null; -- it is gone, or about to go
    end;
  end loop;
  return false;
end $$;

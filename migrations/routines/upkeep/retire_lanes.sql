-- Takes lanes out that no pending task is in, so that claims cost no more for all the queues that were ever used. Nobody waits for this
-- and it waits for nobody; it is done in three steps, each in a transaction of its own, and can be left off after any of them:
--   1. Empty lanes are marked as leaving. Whoever puts a task into such a lane from now on adds another row for it.
--   2. The number of a later transaction is noted: everybody who may have seen the lane as staying has a lower one, because
--      whoever looks for its lane has its own number by then (see add_lanes).
--   3. When all lower numbers have ended, what they put in can be seen. Lanes that are still empty are deleted, the others stay.
-- A transaction that keeps an old snapshot may have seen the lane as staying, too, and have a higher number. It has locked the lane's row
-- (see keep_lane), and a row that is locked is left for the next time.
-- A few lanes cost nothing worth saving, so as long as there are no more than p_keep of them all stay, and nothing is written.
create or replace function retire_lanes(p_keep integer default 64) returns void
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set lock_timeout = '500ms'
as $$
declare
  v_began timestamptz := clock_timestamp();
  v_after xid8;
  v_going uuid[];
begin
  perform require_read_committed();
  -- The steps compare this transaction's number. It must have been given after the last step was committed.
  if not pg_try_advisory_xact_lock(gate_lock_id('service', 'lanes')) or pg_current_xact_id_if_assigned() is not null then
    return;
  end if;
  -- Rationed by its own cost, which is high where another transaction keeps what was claimed from being cleaned up. Not until
  -- a time far ahead, should the server's clock have been set back.
  select lanes_after into v_after from upkeep where lanes_next_at not between v_began and v_began + interval '10 minutes';
  if not found or not exists (select from lane offset p_keep) then
    return;
  end if;
  -- A second row for the same lane may go at once: whoever has seen it can rely on the first, which goes only in these three steps.
  v_going := array(
    select p.id from (
      select id, row_number() over in_place > 1 and not first_value(is_leaving) over in_place as is_second
      from lane window in_place as (partition by queue, priority order by is_leaving, id)) p
    where p.is_second);
  delete from lane where id = any (array(select id from lane where id = any (v_going) for update skip locked));
  if exists (select from lane where is_leaving) then
    -- A number that was not given out yet is that of another server, of which this one is a copy.
    if v_after is null or v_after > pg_current_xact_id() then
      update upkeep set lanes_after = pg_current_xact_id();
      return;
    end if;
    if pg_snapshot_xmin(pg_current_snapshot()) < v_after then
      return;
    end if;
    v_going := array(
      select l.id from lane l
      where l.is_leaving and not exists (select from ready r where r.queue = l.queue and r.priority = l.priority)
      for update of l skip locked);
    -- Looked at again, now that they are locked: whoever kept one of them until now has put a task into it.
    delete from lane l where l.id = any (v_going) and not exists (select from ready r where r.queue = l.queue and r.priority = l.priority);
    update lane set is_leaving = false where is_leaving;
  end if;
  update lane l set is_leaving = true
  where not l.is_leaving and not exists (select from ready r where r.queue = l.queue and r.priority = l.priority);
  update upkeep set lanes_after = null, lanes_next_at = clock_timestamp() + 20 * (clock_timestamp() - v_began);
end $$;

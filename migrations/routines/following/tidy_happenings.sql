-- Removes happenings that are old: those that could be seen ten minutes ago, or before the last c_rows. Also those who have stopped following. Once in
-- five seconds, by whoever renews a lease first, and by the sweeps. Returns how many happenings left.
create or replace function tidy_happenings() returns integer
language plpgsql set search_path from current set enable_seqscan = off set jit = off set lock_timeout = '500ms'
as $$
declare
  c_every constant interval := '5 seconds';
  c_kept  constant interval := '10 minutes';
  c_left  constant interval := '2 minutes';
  -- Longer than any lease: it was written before the clock was set back. Who is alive takes another id.
  c_ahead constant interval := '10 minutes';
  c_rows  constant bigint := 100000;
  v_last  bigint;
  v_mark  happening_mark;
  v_gone  integer := 0;
begin
  -- A mark that is yet to come was made before the clock was set back, and holds up nobody.
  if exists (select from happening_mark where marked_at between clock_timestamp() - c_every and clock_timestamp())
     or not pg_try_advisory_xact_lock(gate_lock_id('service', 'happenings')) then
    return 0;
  end if;
  -- Rows that somebody else has locked are left for the next time.
  delete from followed where ctid = any (array(
    select f.ctid from followed f left join follower l on l.id = f.follower
    where f.left_at < clock_timestamp() - c_left or l.id is null or l.until not between clock_timestamp() - c_left and clock_timestamp() + c_ahead
    limit 10000 for update of f skip locked));
  delete from follower where ctid = any (array(
    select ctid from follower where until not between clock_timestamp() - c_left and clock_timestamp() + c_ahead limit 10000 for update skip locked));
  if not exists (select from happening) then
    delete from happening_mark where not is_floor;
    return 0;
  end if;
  v_last := (select id from happening order by xact desc, id desc limit 1);
  select * into v_mark from happening_mark
  where not is_floor and (marked_at < clock_timestamp() - c_kept or last_id < v_last - c_rows)
  order by marked_at desc limit 1;
  if found then
    delete from happening where xact < pg_snapshot_xmax(v_mark.seen) and pg_visible_in_snapshot(xact, v_mark.seen);
    get diagnostics v_gone = row_count;
    delete from happening_mark where marked_at < v_mark.marked_at;
    update happening_mark set is_floor = true where marked_at = v_mark.marked_at;
  end if;
  insert into happening_mark (last_id) values (v_last);
  return v_gone;
end $$;

-- Begins a sweep of the one whose turn it is (see take_turns). Returns who swept before and how long ago that was, and whether the hearts are held.
-- Notes since when hearts can be heard: anew in another epoch, and after any gap in which nobody listened or no
-- heart at all was heard. A listener without a heart of its own (p_is_replica: false) needs none for that: the row that it writes here shows that
-- signs can be written.
-- Whoever stands still in the middle of this, or waits for somebody who does, must not keep the
-- others from sweeping: it waits for no heart's row, not long for its own, and has nothing to send that could fill a
-- connection that nobody reads. For the same reason it names only some of the hearts that it could not write (refused), and says how many there are.
create or replace function begin_sweep(p_sweeper uuid, p_gap_ms bigint, p_is_replica boolean)
returns table (swept_by uuid, swept_ago_ms double precision, is_held boolean, refused json, refused_count integer)
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
#variable_conflict use_column
declare
  c_named    constant integer := 20;
  -- A clock that was set back by more has made whatever is known of time worthless. By less, it only makes silences shorter.
  c_set_back constant interval := '5 seconds';
  v_epoch    text := current_epoch();
  v_before   listening;
  v_after    listening;
  v_gap      interval := make_interval(secs => p_gap_ms / 1000.0);
  v_last     timestamptz;
  v_was_away boolean;
  v_held     bigint[];
  v_until    timestamptz;
  v_refused  refused_heart[];
begin
  refused_count := 0;
  select * into v_before from listening;
  swept_by := v_before.swept_by;
  is_held := exists (select from hold where source = 'hearts');
  if v_before.swept_at is null then
    insert into listening (epoch, hearing_since, swept_at, swept_by) values (v_epoch, clock_timestamp(), clock_timestamp(), p_sweeper)
    returning * into v_after;
  else
    v_last := greatest(v_before.swept_at, v_before.listened_at);
    v_was_away := clock_timestamp() - v_last > v_gap or v_last - clock_timestamp() > c_set_back;
    update listening
    set epoch = v_epoch, swept_at = clock_timestamp(), swept_by = p_sweeper,
        hearing_since = case
          when epoch <> v_epoch or v_was_away or p_is_replica and not is_a_heart_heard(v_epoch, v_gap) then clock_timestamp() else least(hearing_since, clock_timestamp()) end,
        sessions_since = case
          when v_was_away and not has_lived_since(v_last) then clock_timestamp() else least(sessions_since, clock_timestamp()) end,
        listened_at = least(listened_at, clock_timestamp())
    returning * into v_after;
  end if;
  -- As it is now: somebody may have waited for that row with us, and raised an alert meanwhile.
  swept_ago_ms := extract(epoch from clock_timestamp() - v_before.swept_at) * 1000;

  -- Of whichever source: where the clock was set back, a hold would last until the clock has come that far again, and longer.
  update hold set since = least(since, clock_timestamp()), renewed_at = least(renewed_at, clock_timestamp())
  where source in (select h.source from hold h where greatest(h.since, h.renewed_at) > clock_timestamp() for update skip locked);

  -- A free lock is evidence only where it would prove something, and only from when it was first seen free. A row that is
  -- locked is being beaten or judged, and is seen the next time. The keys are hashed: each heart is not compared with all of them.
  v_held := held_sessions();
  v_until := clock_timestamp() + interval '2 seconds';
  v_refused := mark_hearts(array(
    select x.replica_id from heart x join replica r on r.id = x.replica_id
    where r.status in ('online', 'draining')
      and (x.session_free_since < 'infinity') <> (session_counts(x, v_after) and x.session_key not in (select unnest(v_held)))
    for update of x skip locked), false, v_until);

  -- The clock was set back: what is yet to come counts as of now, since it would be heard until the clock has come that far again.
  if v_before.swept_at > clock_timestamp() then
    v_refused := v_refused || mark_hearts(array(
      select x.replica_id from heart x join replica r on r.id = x.replica_id
      where r.status in ('online', 'draining')
        and (x.beat_at > clock_timestamp() or x.session_free_since > clock_timestamp() and x.session_free_since < 'infinity')
      for update of x skip locked), true, v_until);
  end if;
  if cardinality(v_refused) > 0 then
    with each as (select distinct on (replica_id) * from unnest(v_refused))
    select count(*), json_agg(json_build_object('replicaId', replica_id, 'code', code, 'message', message)) filter (where n <= c_named)
    into refused_count, refused from (select *, row_number() over (order by replica_id) as n from each) e;
  end if;
  return next;
end $$;

-- The attempts that have not got on for so long that a verdict on them may be other than fresh: for p_from_part of the `stalledAfter` of their definition.
-- Whether they have stalled is judged by whoever asks. An owner that is not heard itself is judged by its heart, not by what it cannot write: one
-- that has missed p_missed_beats of its beats. Where no definition says `stalledAfter`, this is one look at a small table; where one
-- does, a walk over `running`, which has no index for it: it would cost every claim and every end.
create or replace function find_stalled(p_missed_beats double precision, p_from_part double precision) returns table (
  claim_id bigint, task_id uuid, replica_id uuid, name text, attempt integer, failures integer, quiet_for_ms double precision,
  stalled_after_ms bigint, settings json, phase text, details json, share double precision, note text)
language plpgsql set search_path from current set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
  v_names     text[];
  v_from_ms   double precision;
  v_listening listening;
  v_now       timestamptz := clock_timestamp();
begin
  select array_agg(d.name), p_from_part * min(d.stalled_after_ms) into v_names, v_from_ms from definition d where d.stalled_after_ms is not null;
  if v_from_ms is null then
    return;
  end if;
  select * into v_listening from listening where epoch = current_epoch();
  -- Nobody has been heard for long enough to be too quiet; or the clock was set back during this sweep.
  if v_listening.epoch is null or v_listening.swept_at > v_now or quiet_ms(null, null, v_listening.hearing_since, v_now) < v_from_ms then
    return;
  end if;
  return query
    with candidate as materialized (
      select u.* from running u
      where u.state = 'running' and u.name = any (v_names) and u.cancel_requested_at is null
        and quiet_ms(null, u.started_at, v_listening.hearing_since, v_now) >= v_from_ms
    ), watched as materialized (
      select d.name, p_from_part * d.stalled_after_ms as from_ms, d.stalled_after_ms, d.settings from definition d where d.name = any (v_names)
    ), heard as materialized (
      select h.replica_id from heart h join replica r on r.id = h.replica_id
      where r.status in ('online', 'draining') and silent_ms(h, r.started_at, v_listening) < p_missed_beats * h.interval_ms
    )
    select u.claim_id, u.task_id, u.replica_id, u.name, u.attempt, u.failures,
           quiet_ms(p.changed_at, u.started_at, v_listening.hearing_since, v_now),
           w.stalled_after_ms, w.settings, p.phase, p.details, p.share, p.note
    from candidate u
    join watched w on w.name = u.name
    join heard h on h.replica_id = u.replica_id
    -- One probe for each, however much is on record of tasks that have ended.
    left join lateral (select * from progress where progress.claim_id = u.claim_id offset 0) p on true
    where quiet_ms(p.changed_at, u.started_at, v_listening.hearing_since, v_now) >= w.from_ms
    order by u.claim_id;
end $$;

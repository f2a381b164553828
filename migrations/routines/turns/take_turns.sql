-- Takes the turns of all services that are due for this one, each under a new token, and says of the others who has them.
--   p_taker, p_host        who asks, and on which host, for people
--   p_services             those that it could run, the most frequent first
--   p_every_ms             at which interval it runs each of them
--   p_from_ms              after how long it would run each in the place of whoever had it last. Null: not now
--   p_do_hold              false: nobody waits for a run of this service. Another may run it as soon as it is late
--   p_hold_ms              how long a turn is held without another word, so that a taker that is gone holds nothing for long
--   p_running              the tokens of what it still runs: these turns are held for longer
--   p_ended, p_took_ms     the tokens of its runs that went well and have ended since the last question, and how long each took
--   p_is_replica, p_places for its place in line: one that is no replica stands last, and nobody counts further than p_places
-- place is null for whoever has the most frequent service. awaits_end: the end of that run could not be written, because somebody has locked the row.
-- Everybody asks this, and mostly it is nobody's turn, so it costs only a few reads. It waits for nobody: a row that is locked is passed by.
create or replace function take_turns(p_taker uuid, p_host text, p_services text[], p_every_ms bigint[], p_from_ms bigint[], p_do_hold boolean[],
                                      p_hold_ms bigint, p_running uuid[], p_ended uuid[], p_took_ms double precision[],
                                      p_is_replica boolean, p_places integer)
returns table (service text, token uuid, is_ours boolean, taken_by uuid, taken_ago_ms double precision, place integer, awaits_end boolean)
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
#variable_conflict use_column
declare
  v_epoch  text := current_epoch();
  v_hold   interval := make_interval(secs => p_hold_ms / 1000.0);
  v_wanted text[] := array(
    select w.service from unnest(p_services, p_from_ms) as w (service, from_ms) left join turn t on t.service = w.service
    where from_ms is not null and is_turn_due(t, v_epoch, p_taker, from_ms, p_hold_ms));
  v_missed uuid[] := p_ended;
  v_due    turn[] := '{}';
  v_place  integer;
begin
  if cardinality(p_ended) > 0 then
    with noted as (
      update turn t set held_until = '-infinity', ended_at = clock_timestamp(), took_ms = e.took_ms, error = null, failures = 0, failing_since = null
      from unnest(p_ended, p_took_ms) as e (token, took_ms)
      where t.token = e.token and t.service in (select x.service from turn x where x.token = any (p_ended) for update skip locked)
      returning t.token
    )
    select array(select e from unnest(p_ended) e where e not in (select n.token from noted n)) into v_missed;
  end if;
  if cardinality(p_running) > 0 then
    update turn set held_until = clock_timestamp() + v_hold
    where service in (select t.service from turn t where t.token = any (p_running) and t.held_until > '-infinity' for update skip locked);
  end if;
  if cardinality(v_wanted) > 0 then
    insert into turn (service, epoch, every_ms) select w, '', 0 from unnest(v_wanted) w
    where not exists (select from turn t where t.service = w) on conflict do nothing;
    -- As they are now: somebody may have taken one since the look. Not where the end of the run before is still to be written.
    v_due := array(
      select t from turn t join unnest(p_services, p_from_ms) as w (service, from_ms) on w.service = t.service
      where t.service = any (v_wanted) and (t.token = any (v_missed)) is not true and is_turn_due(t, v_epoch, p_taker, w.from_ms, p_hold_ms) for update of t skip locked);
    update turn t
    set token = gen_random_uuid(), epoch = v_epoch, taken_at = clock_timestamp(), taken_by = p_taker, taken_on = p_host, every_ms = w.every_ms,
        held_until = case when w.do_hold then clock_timestamp() + v_hold else '-infinity' end
    from unnest(p_services, p_every_ms, p_do_hold) as w (service, every_ms, do_hold)
    where t.service = w.service and t.service in (select d.service from unnest(v_due) d);
  end if;
  -- Behind whoever has the most frequent one.
  select case when t.taken_by = p_taker then null when p_is_replica
    then place_in_line(p_taker, coalesce(t.taken_by, '00000000-0000-0000-0000-000000000000'), p_places) else p_places end
  into v_place from (select) one left join turn t on t.service = p_services[1];
  return query
    select t.service, t.token, d.service is not null, case when d.service is null then t.taken_by else d.taken_by end,
           (extract(epoch from clock_timestamp() - case when d.service is null then t.taken_at else d.taken_at end) * 1000)::double precision, v_place,
           (t.token = any (v_missed)) is true
    from turn t left join unnest(v_due) d on d.service = t.service where t.service = any (p_services);
end $$;

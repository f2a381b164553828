-- Takes the turns of all services that are due for this one, each under a new token, and says of the others who has them. p_services are those that it
-- could run, the most frequent first, with their intervals and, in p_from_ms, after how long it would run them in the place of another. A turn is held for
-- p_hold_ms, unless it is ended or asked for again before (p_running: the tokens of what it still runs), so that a taker that is gone holds
-- nothing for long. Runs that went well since the last question (p_ended) are noted along with it. Where p_do_hold is false the turn is not held at all: another may run it as soon as this one is late.
-- Everybody asks this, and mostly it is nobody's turn, so that costs only a few reads. It waits for nobody: a row that is locked is passed by.
create or replace function take_turns(p_taker uuid, p_host text, p_services text[], p_every_ms bigint[], p_from_ms bigint[], p_do_hold boolean[],
                                      p_hold_ms bigint, p_running uuid[], p_ended uuid[], p_took_ms double precision[],
                                      p_is_replica boolean, p_places integer)
returns table (service text, token uuid, is_ours boolean, taken_by uuid, taken_ago_ms double precision, place integer)
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
#variable_conflict use_column
declare
  v_epoch  text := current_epoch();
  v_hold   interval := make_interval(secs => p_hold_ms / 1000.0);
  v_wanted text[] := array(
    select w.service from unnest(p_services, p_from_ms) as w (service, from_ms) left join turn t on t.service = w.service
    where from_ms is not null and is_turn_due(t, v_epoch, p_taker, from_ms, p_hold_ms));
  v_due    turn[] := '{}';
  v_place  integer;
begin
  if cardinality(p_ended) > 0 then
    update turn t set held_until = '-infinity', ended_at = clock_timestamp(), took_ms = e.took_ms, error = null, failures = 0
    from unnest(p_ended, p_took_ms) as e (token, took_ms)
    where t.token = e.token and t.service in (select x.service from turn x where x.token = any (p_ended) for update skip locked);
  end if;
  if cardinality(p_running) > 0 then
    update turn set held_until = clock_timestamp() + v_hold
    where service in (select t.service from turn t where t.token = any (p_running) and t.held_until > '-infinity' for update skip locked);
  end if;
  if cardinality(v_wanted) > 0 then
    insert into turn (service, epoch, every_ms) select w, '', 0 from unnest(v_wanted) w
    where not exists (select from turn t where t.service = w) on conflict do nothing;
    -- As they are now: somebody may have taken one since the look.
    v_due := array(
      select t from turn t join unnest(p_services, p_from_ms) as w (service, from_ms) on w.service = t.service
      where t.service = any (v_wanted) and is_turn_due(t, v_epoch, p_taker, w.from_ms, p_hold_ms) for update of t skip locked);
    update turn t
    set token = gen_random_uuid(), epoch = v_epoch, taken_at = clock_timestamp(), taken_by = p_taker, taken_on = p_host, every_ms = w.every_ms,
        held_until = case when w.do_hold then clock_timestamp() + v_hold else '-infinity' end
    from unnest(p_services, p_every_ms, p_do_hold) as w (service, every_ms, do_hold)
    where t.service = w.service and t.service in (select d.service from unnest(v_due) d);
  end if;
  -- Behind whoever has the most frequent one.
  if cardinality(v_due) = 0 then
    v_place := case when p_is_replica
      then place_in_line(p_taker, coalesce((select t.taken_by from turn t where t.service = p_services[1]), '00000000-0000-0000-0000-000000000000'), p_places)
      else p_places end;
  end if;
  return query
    select t.service, t.token, d.service is not null, case when d.service is null then t.taken_by else d.taken_by end,
           (extract(epoch from clock_timestamp() - case when d.service is null then t.taken_at else d.taken_at end) * 1000)::double precision, v_place
    from turn t left join unnest(v_due) d on d.service = t.service where t.service = any (p_services);
end $$;

-- A hold on what follows from the deaths of one source, remembered for whoever sweeps that source then. No other source is held by it.
-- One that was left behind begins anew: its age says nothing about these deaths, and neither does its confirmation.
-- Verdicts wait for it, so it waits for nobody who has locked the row. It is renewed only now and then, when that can be done. Returns no row where it
-- must be written and somebody keeps it locked.
create or replace function begin_hold(p_source text, p_counted text, p_kept_ms double precision)
returns table (held_for_ms double precision, is_confirmed boolean)
language plpgsql set search_path from current set lock_timeout = '50ms'
as $$
#variable_conflict use_column
declare
  c_renewals constant integer := 4; -- within the time for which it is kept
  v_kept     interval := make_interval(secs => p_kept_ms / 1000.0);
  v_hold     hold;
begin
  select * into v_hold from hold where source = p_source;
  if v_hold.source is null then
    insert into hold (source, counted, since, renewed_at, kept_for) values (p_source, p_counted, clock_timestamp(), clock_timestamp(), v_kept)
    on conflict (source) do nothing returning * into v_hold;
  elsif not hold_lasts(v_hold) then
    update hold set counted = p_counted, since = clock_timestamp(), confirmed_at = null, renewed_at = clock_timestamp(), kept_for = v_kept
    where source in (select h.source from hold h where h.source = p_source and not hold_lasts(h) for update skip locked)
    returning * into v_hold;
  elsif v_hold.counted <> p_counted or v_hold.kept_for <> v_kept or clock_timestamp() > v_hold.renewed_at + v_kept / c_renewals then
    update hold set counted = p_counted, renewed_at = clock_timestamp(), kept_for = v_kept
    where source in (select h.source from hold h where h.source = p_source for update skip locked);
  end if;
  if v_hold.source is not null then
    held_for_ms := extract(epoch from clock_timestamp() - v_hold.since) * 1000;
    is_confirmed := v_hold.confirmed_at is not null;
    return next;
  end if;
exception when lock_not_available then
  -- Somebody has put it in and not committed.
end $$;

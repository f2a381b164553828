-- Takes up to p_wanted starts from the budget. Returns how many it took; null: that cannot be said now, see hold_rate.
create or replace function take_rate(p_key text, p_limit integer, p_per_ms bigint, p_wanted integer) returns integer
language plpgsql set search_path from current
as $$
declare
  v_rate    rate;
  v_left    record;
  v_granted integer;
  v_rest    numeric;
begin
  v_rate := hold_rate(p_key);
  if v_rate.key is null then
    return null;
  end if;
  v_left := budget_left(v_rate, p_limit, p_per_ms);
  v_granted := least(p_wanted, v_left.room);
  if v_granted = 0 and v_left.spent >= v_rate.spent_until then
    return 0;
  end if;
  v_rest := v_left.rest + v_granted * (p_per_ms * 1000.0);
  update rate
  set spent_until = v_left.spent + div(v_rest, p_limit)::double precision * interval '1 microsecond', spent_rest = mod(v_rest, p_limit)
  where key = p_key;
  return v_granted;
end $$;

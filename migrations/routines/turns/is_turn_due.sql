-- Whether this one may run the service now. Whoever ran it last decides by itself how soon it does so again. For all others it is due when it was not run
-- in time and nobody is at it any more. A turn of another epoch holds nobody up, nor one that lies in the future, because the clock was set back since.
create or replace function is_turn_due(p_turn turn, p_epoch text, p_taker uuid, p_from_ms bigint, p_hold_ms bigint) returns boolean
language sql volatile
as $$
  select coalesce(
    p_turn.epoch <> p_epoch or p_turn.taken_by = p_taker or p_turn.taken_at > clock_timestamp()
    or clock_timestamp() - p_turn.taken_at >= make_interval(secs => p_from_ms / 1000.0)
       and not p_turn.held_until between clock_timestamp() and clock_timestamp() + make_interval(secs => p_hold_ms / 1000.0), true)
$$;

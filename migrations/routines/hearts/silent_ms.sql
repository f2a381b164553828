-- How long a heart has been silent: counted from its last sign of this epoch, but not from before anyone could be heard. A start that
-- is far ahead was stamped before the clock was set back.
-- Volatile, as the clock in it is: declared to be less, it would be called for every heart, and not become part of the query.
create or replace function silent_ms(p_heart heart, p_started_at timestamptz, p_listening listening, p_until timestamptz default clock_timestamp())
returns double precision
language sql volatile
as $$
  select date_part('epoch', p_until - greatest(
    case when p_heart.epoch = p_listening.epoch then p_heart.beat_at end,
    case when p_started_at <= p_listening.swept_at + interval '1 minute' then p_started_at end, p_listening.hearing_since)) * 1000
$$;

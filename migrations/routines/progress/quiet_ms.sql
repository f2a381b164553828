-- How long an attempt has not got on: counted from its last sign, but not from before it began, nor from before anyone
-- could be heard (see silent_ms). A stamp that lies far ahead was made by another server's clock, or before this one was set back far
-- enough to begin to listen anew, and proves nothing; one that lies a little ahead is as good as now.
create or replace function quiet_ms(p_changed_at timestamptz, p_started_at timestamptz, p_hearing_since timestamptz, p_now timestamptz) returns double precision
language sql immutable
as $$
  select extract(epoch from p_now - greatest(
    case when p_changed_at <= p_now + interval '1 minute' then least(p_changed_at, p_now) end,
    case when p_started_at <= p_now + interval '1 minute' then least(p_started_at, p_now) end, p_hearing_since)) * 1000
$$;

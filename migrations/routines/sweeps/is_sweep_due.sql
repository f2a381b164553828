-- Whether it is time for this one to sweep: nobody else did just now. If the last sweep lies in the future, the clock was set back since.
create or replace function is_sweep_due(p_listening listening, p_epoch text, p_sweeper uuid, p_min_interval_ms bigint) returns boolean
language sql volatile
as $$
  select not coalesce(
    p_listening.epoch = p_epoch and p_listening.swept_by is distinct from p_sweeper
    and clock_timestamp() - p_listening.swept_at >= '0' and clock_timestamp() - p_listening.swept_at < make_interval(secs => p_min_interval_ms / 1000.0), false)
$$;

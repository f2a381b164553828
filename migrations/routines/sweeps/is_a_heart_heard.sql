-- The first that is found will do.
create or replace function is_a_heart_heard(p_epoch text, p_within interval) returns boolean
language sql volatile set search_path from current
as $$
  select exists (
    select from heart where epoch = p_epoch and beat_at between clock_timestamp() - p_within and clock_timestamp() + interval '5 seconds')
$$;

-- A hold on recovery, remembered for whoever is the reaper then.
create or replace function begin_hold() returns table (held_for_ms double precision, is_confirmed boolean)
language sql set search_path from current set lock_timeout = '500ms'
as $$
  update listening set held_since = coalesce(held_since, clock_timestamp())
  returning (extract(epoch from clock_timestamp() - held_since) * 1000)::double precision, hold_confirmed_at is not null
$$;

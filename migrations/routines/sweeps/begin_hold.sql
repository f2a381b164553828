-- A hold on what follows from the deaths of one source, remembered for whoever sweeps that source then. No other source is held by it.
create or replace function begin_hold(p_source text, p_counted text) returns table (held_for_ms double precision, is_confirmed boolean)
language sql set search_path from current set lock_timeout = '500ms'
as $$
  insert into hold (source, counted, since) values (p_source, p_counted, clock_timestamp())
  on conflict (source) do update set counted = excluded.counted
  returning (extract(epoch from clock_timestamp() - since) * 1000)::double precision, confirmed_at is not null
$$;

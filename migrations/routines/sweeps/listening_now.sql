-- For those who ask and do not listen themselves: what is known of another epoch is nothing, until somebody listens in this one.
create or replace function listening_now() returns setof listening
language sql stable set search_path from current
as $$
  select l.is_only, coalesce(e.epoch, ''), case when l.epoch = e.epoch then l.hearing_since else clock_timestamp() end,
         l.swept_at, l.swept_by, l.looked_at, l.look_took, l.sessions_since, l.listened_at
  from listening l cross join (select known_epoch() as epoch) e
$$;

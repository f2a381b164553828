-- Null where a new epoch has begun and nobody has written anything since, and on a standby, which cannot read an unlogged table. It is short,
-- because every heart's row has it twice: the more beats fit on a page before the page has to be pruned, the less is written. It always has the
-- same length, one that leaves no gap before beat_at.
create or replace function known_epoch() returns text
language plpgsql stable set search_path from current
as $$
begin
  if pg_is_in_recovery() then
    return null;
  end if;
  return (
    select right(lpad(to_hex(hashtextextended(marker::text, 0)), 16, '0'), 14) from epoch_marker
    where server_start = pg_postmaster_start_time() and home = pg_relation_filepath('epoch_marker') and writer = xmin);
end $$;

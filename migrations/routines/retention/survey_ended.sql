-- Adds spans for the pages that are new since the last time: what lies there ended after that. (A task that was completed in a user's transaction
-- ended when that transaction began. At the most, it leaves later by the length of that transaction.) In a table that was written anew as a whole (vacuum full, a restored
-- dump) everything lies elsewhere: then it is read once.
create or replace function survey_ended() returns void
language plpgsql set search_path from current
as $$
declare
  v_file  oid := pg_relation_filenode('ended');
  v_last  bigint := (pg_relation_size('ended') / current_setting('block_size')::bigint - 1) / 32;
  v_since timestamptz := (select case when surveyed_file = v_file then surveyed_at else '-infinity' end from upkeep);
begin
  delete from ended_span where span > v_last;
  if v_since = '-infinity' then
    delete from ended_span;
  end if;
  insert into ended_span (span, oldest)
  select s, v_since from generate_series((select coalesce(max(span), -1) + 1 from ended_span), v_last) s;
  update ended_span set oldest = oldest_in(span) where oldest = '-infinity';
  update upkeep set surveyed_at = now(), surveyed_file = v_file;
end $$;

-- The details of a phase, where they are short enough to be told to everybody who follows. Others are on record.
create or replace function short_details(p_details json) returns json
language sql immutable
as $$ select case when length(p_details::text) <= 2000 then p_details end $$;

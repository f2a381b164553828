-- The next attempt's number. At its limit a counter stands still: an overflow would fail the whole batch, for ever.
create or replace function one_more(p_count integer) returns integer
language sql immutable
as $$ select least(p_count, 2147483646) + 1 $$;

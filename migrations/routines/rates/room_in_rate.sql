-- How many more of a queue its rate lets start now. Certain only while nobody else can take any: whoever does has the queue's lock.
create or replace function room_in_rate(p_queue text, p_limit integer, p_per_ms bigint) returns bigint
language sql stable set search_path from current
as $$ select (budget_left((select r from rate r where r.key = 'queue/' || p_queue), p_limit, p_per_ms)).room $$;

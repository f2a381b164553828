-- How long reapers have seen a heart's session free. Null: they have not, or it proves nothing. What was noted in another epoch, or before the heart beat
-- without a session, stays on record until the next sweep.
create or replace function session_free_ms(p_heart heart, p_listening listening, p_until timestamptz default clock_timestamp()) returns double precision
language sql immutable
-- Not as text: it must find the other function whatever the search_path is, and become part of the query all the same.
return case when session_counts(p_heart, p_listening) then date_part('epoch', p_until - nullif(p_heart.session_free_since, 'infinity')) * 1000 end;

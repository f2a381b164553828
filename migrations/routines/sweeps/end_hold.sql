-- Verdicts wait for it, so it hardly waits for somebody who keeps the row locked.
create or replace function end_hold(p_source text) returns setof boolean
language sql set search_path from current set lock_timeout = '50ms'
as $$ delete from hold where source = p_source returning true $$;

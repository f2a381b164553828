create or replace function end_hold(p_source text) returns setof boolean
language sql set search_path from current set lock_timeout = '500ms'
as $$ delete from hold where source = p_source returning true $$;

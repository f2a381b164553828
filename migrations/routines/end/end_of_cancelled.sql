-- How the error of a task ends that was cancelled instead of run again: by this it is recognised.
create or replace function end_of_cancelled(p_error text) returns text
language sql immutable
as $$ select coalesce(',"cause":' || p_error, '') || '}' $$;

create or replace function end_hold() returns setof boolean
language sql set search_path from current set lock_timeout = '500ms'
as $$ update listening set held_since = null, hold_confirmed_at = null where held_since is not null returning true $$;

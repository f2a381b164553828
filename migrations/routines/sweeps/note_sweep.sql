-- How long it took. Not waited for long either, and so below: the row is everybody's.
create or replace function note_sweep(p_ms double precision) returns void
language sql set search_path from current set lock_timeout = '500ms'
as $$ update listening set sweep_ms = p_ms $$;

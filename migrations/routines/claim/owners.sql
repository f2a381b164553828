-- Who may own a claim that holds: those alive, or all on record. Not read from `running`, whose index keeps an entry for everything
-- that has gone through it for as long as anybody has a snapshot in which it was there.
create or replace function owners(p_are_alive boolean default true) returns uuid[]
language sql stable set search_path from current
as $$ select array(select id from replica where status in ('online', 'draining') or not p_are_alive) $$;

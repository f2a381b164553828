-- What has happened to a replica last, in the word that its followers are told.
create or replace function replica_change(p_status text, p_came_back_at timestamptz) returns text
language sql immutable
as $$ select case when p_came_back_at is not null then 'rejoined' when p_status = 'online' then 'joined' else p_status end $$;

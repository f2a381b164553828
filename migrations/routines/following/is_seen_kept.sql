-- Whether everything is still there that this snapshot could not see.
create or replace function is_seen_kept(p_seen pg_snapshot) returns boolean
language sql stable set search_path from current
as $$ select not exists (select from happening_mark where is_floor and pg_snapshot_xmax(seen) >= pg_snapshot_xmax(p_seen)) $$;

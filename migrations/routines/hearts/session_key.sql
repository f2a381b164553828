create or replace function session_key(p_replica uuid) returns bigint
language sql stable set search_path from current
as $$ select hashtextextended(current_schema() || '/heart/' || p_replica, 0) $$;

create or replace function without(p_all uuid[], p_some uuid[]) returns uuid[]
language sql immutable
as $$ select array(select a from unnest(p_all) a except select s from unnest(p_some) s) $$;

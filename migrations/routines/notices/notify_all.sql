-- With the schema's name in its text instead of a search_path, so that it becomes a part of the function that asks it.
do $do$
begin
  execute format($format$
    create or replace function notify_all(p_word text, p_object text) returns void
    language sql
    as $$ select pg_notify(%L, p_word || ' ' || p_object) $$
  $format$, current_schema());
end $do$;

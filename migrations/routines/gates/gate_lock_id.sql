-- With the schema's name in its text, as notify_all has.
do $do$
begin
  execute format($format$
    create or replace function gate_lock_id(p_kind text, p_key text) returns bigint
    language sql immutable
    as $$ select hashtextextended(%L || '/' || p_kind || '/' || p_key, 0) $$
  $format$, current_schema());
end $do$;

-- Stable, as the function is that it calls: declared immutable it could not be inlined, and was called for every row.
create or replace function milliseconds(p_at timestamptz) returns bigint
language sql stable
as $$ select floor(date_part('epoch', p_at) * 1000)::bigint $$;

create or replace function first_row_of(p_span bigint) returns tid
language sql immutable
as $$ select format('(%s,0)', 32 * p_span)::tid $$;

-- How much time one start costs, rounded up to a whole microsecond. A budget comes back one such step at a time.
create or replace function rate_step(p_limit integer, p_per_ms bigint) returns interval
language sql immutable
as $$ select ceil(p_per_ms * 1000.0 / p_limit)::double precision * interval '1 microsecond' $$;

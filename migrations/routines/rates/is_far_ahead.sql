-- Whether `spent_until` lies further ahead than a whole budget. That happens only if the server's clock was set back or the limit was
-- changed. One minute is allowed for, because another transaction may have begun earlier than the one that spent the budget.
create or replace function is_far_ahead(p_spent_until timestamptz, p_per_ms bigint) returns boolean
language sql stable
as $$ select p_spent_until > now() + p_per_ms * interval '1 millisecond' + interval '1 minute' $$;

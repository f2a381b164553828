-- When a queue's rate allows another start. Null where the rate was never used, cannot be counted, or lies too far ahead (take_rate puts that
-- right).
create or replace function next_in_rate(p_queue text, p_limit integer, p_per_ms bigint) returns timestamptz
language sql stable set search_path from current
as $$
  select case when is_countable(p_limit, p_per_ms) and not is_far_ahead(spent_until, p_per_ms)
    then spent_until - p_per_ms * interval '1 millisecond' + rate_step(p_limit, p_per_ms) end
  from rate where key = 'queue/' || p_queue
$$;

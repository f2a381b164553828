-- When a task without budget should ask again: one step behind the last one that was put off. Those before it may be cancelled, or the limit
-- may be raised, and nobody tells this row. So no task is put off for longer than the limit's own time, or five minutes where that is shorter:
-- then it asks again.
create or replace function defer_rate(p_key text, p_limit integer, p_per_ms bigint) returns timestamptz
language sql set search_path from current
as $$
  update rate r
  set deferred_until = least(greatest(r.deferred_until, r.spent_until - p_per_ms * interval '1 millisecond', now()) + rate_step(p_limit, p_per_ms),
                             now() + greatest(p_per_ms * interval '1 millisecond', interval '5 minutes'))
  where key = p_key
  returning deferred_until
$$;

-- Returns whether they are armed. A transaction that has rung may stay open for long: its process was stopped, or it is prepared and not
-- yet committed. Then the worker does not wait for it, and looks again by itself before long.
create or replace function arm_bells(p_queues text[]) returns boolean
language plpgsql set search_path from current set lock_timeout = '50ms'
as $$
begin
  perform pg_advisory_xact_lock(gate_lock_id('service', 'bells'));
  insert into bell (queue, armed) select distinct q, true from unnest(p_queues) q order by 1
  on conflict (queue) do update set armed = true where not bell.armed;
  return true;
exception when lock_not_available then
  return false;
end $$;

-- Wakes the workers of these queues, but only where one has said that it is idle, and only once until the
-- next says so: a million single enqueues send a handful of notifications. Whoever finds the bell locked
-- leaves it: the one who holds it is about to ring it. The bell `*` is that of workers who serve every queue.
--
-- No wake-up is missed: whoever looks at the bells holds a shared lock from then until its commit, and whoever arms
-- one waits for them all. So either the worker that has armed it finds what they put in, or they found it armed.
-- Nobody waits in order to ring: while one is being armed, they notify without looking. Returns whether anybody is told.
create or replace function ring(p_queues text[]) returns boolean
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
declare
  v_queue text;
begin
  -- Nothing was put in anywhere: also those who serve every queue are left alone.
  if coalesce(cardinality(p_queues), 0) = 0 then
    return false;
  end if;
  if not pg_try_advisory_xact_lock_shared(gate_lock_id('service', 'bells')) then
    perform announce(p_queues);
    return true;
  end if;
  for v_queue in
    select queue from bell where queue = any (p_queues || '*'::text) and armed for update skip locked
  loop
    update bell set armed = false where queue = v_queue;
    perform notify_all('ready', v_queue);
  end loop;
  return found;
end $$;

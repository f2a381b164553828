-- Telling workers and waiters that something happened. One channel, named like the schema; the payload is a
-- word and its object: `ready <queue>`, `ended <task id>`, `changed <replica id>`.

-- With the schema's name in its text instead of a search_path, so that it becomes a part of the function that asks it.
do $do$
begin
  execute format($format$
    create function notify_all(p_word text, p_object text) returns void
    language sql
    as $$ select pg_notify(%L, p_word || ' ' || p_object) $$
  $format$, current_schema());
end $do$;

-- Wakes the workers of these queues, but only where one has said that it is idle, and only once until the
-- next says so: a million single enqueues send a handful of notifications. Whoever finds the bell locked
-- leaves it: the one who holds it is about to ring it. The bell `*` is that of workers who serve every queue.
--
-- No wake-up is missed: whoever looks at the bells holds a shared lock from then until its commit, and whoever arms
-- one waits for them all. So either the worker that has armed it finds what they put in, or they found it armed.
-- Nobody waits in order to ring: while one is being armed, they notify without looking. Returns whether anybody is told.
create function ring(p_queues text[]) returns boolean
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

-- The same from inside a transaction that may go on for long: it must not hold the bell until then, and whether a
-- worker is idle when it commits cannot be known now. So it always notifies, once per queue and transaction.
create function announce(p_queues text[]) returns void
language sql set search_path from current
as $$ select notify_all('ready', q) from unnest(p_queues) q $$;

-- Returns whether they are armed. A transaction that has rung may stay open for long: its process was stopped, or it is prepared and not
-- yet committed. Then the worker does not wait for it, and looks again by itself before long.
create function arm_bells(p_queues text[]) returns boolean
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

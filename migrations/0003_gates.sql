-- Exclusive keys and rate limits: what may hold back a task that is due.
--
-- A key's lock is held from the decision until commit by whoever claims (trying, never waiting) and by whoever
-- frees (waiting, keys in order), so no task can be parked in the very moment in which its key becomes free.

-- With the schema's name in its text, as notify_all has.
do $do$
begin
  execute format($format$
    create function gate_lock_id(p_kind text, p_key text) returns bigint
    language sql immutable
    as $$ select hashtextextended(%L || '/' || p_kind || '/' || p_key, 0) $$
  $format$, current_schema());
end $do$;

-- Whoever counts places, keys or lanes has taken a lock before, and must see what others have committed until then. In a snapshot that is
-- older than the lock it would count wrong. The client then repeats the statement in a transaction that begins in read committed.
create function require_read_committed() returns void
language plpgsql
as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'this must be asked in a transaction that is read committed, and this one is %', current_setting('transaction_isolation')
      using errcode = 'EB008', hint = 'Begin it with: begin isolation level read committed.';
  end if;
end $$;

-- Fails the claim, whose worker then sets aside what it cannot take (see set_aside_bad).
create function refuse_claim(p_reason text) returns text
language plpgsql
as $$
begin
  raise exception using message = p_reason, errcode = 'EB005';
end $$;

-- How much time one start costs, rounded up to a whole microsecond. A budget comes back one such step at a time.
create function rate_step(p_limit integer, p_per_ms bigint) returns interval
language sql immutable
as $$ select ceil(p_per_ms * 1000.0 / p_limit)::double precision * interval '1 microsecond' $$;

-- Whether `spent_until` lies further ahead than a whole budget. That happens only if the server's clock was set back or the limit was
-- changed. One minute is allowed for, because another transaction may have begun earlier than the one that spent the budget.
create function is_far_ahead(p_spent_until timestamptz, p_per_ms bigint) returns boolean
language sql stable
as $$ select p_spent_until > now() + p_per_ms * interval '1 millisecond' + interval '1 minute' $$;

-- When a queue's rate allows another start. Null where the rate was never used, cannot be counted, or lies too far ahead (take_rate puts that
-- right).
create function next_in_rate(p_queue text, p_limit integer, p_per_ms bigint) returns timestamptz
language sql stable set search_path from current
as $$
  select case when is_countable(p_limit, p_per_ms) and not is_far_ahead(spent_until, p_per_ms)
    then spent_until - p_per_ms * interval '1 millisecond' + rate_step(p_limit, p_per_ms) end
  from rate where key = 'queue/' || p_queue
$$;

-- How many more could start now under `p_limit` per `p_per_ms` (`room`), and from when on they would count as spent (`spent` and `rest`).
-- p_rate is the row of `rate`; null where there is none. It is counted in parts of a microsecond (see rate), because most limits do not
-- divide their time evenly, and rounding would lose something with every start.
create function budget_left(p_rate rate, p_limit integer, p_per_ms bigint, out spent timestamptz, out rest numeric, out room bigint)
language sql stable set search_path from current
as $$
  select s.spent, s.rest,
    case when is_countable(p_limit, p_per_ms)
      then greatest(0, floor((extract(epoch from now() + p_per_ms * interval '1 millisecond' - s.spent) * 1000000 * p_limit - s.rest) / (p_per_ms * 1000.0)))::bigint
      else refuse_claim(format('a rate of %s in %s ms cannot be counted', p_limit, p_per_ms))::bigint end
  from (
    select s.spent, case when s.spent = p_rate.spent_until then least(p_rate.spent_rest, p_limit - 1) else 0 end as rest
    from (select case when is_far_ahead(p_rate.spent_until, p_per_ms) then now() + p_per_ms * interval '1 millisecond'
                      else greatest(p_rate.spent_until, now()) end as spent) s
  ) s
$$;

-- Locks what counts a rate, until commit. Null: somebody else has it locked, and is not waited for. A claim that waits keeps everything from
-- its worker. Only a transaction that adds or removes the row at this moment (see src/sql/purge.ts) is waited for, for 50 ms at most: it
-- usually ends at once.
create function hold_rate(p_key text) returns rate
language plpgsql set search_path from current set lock_timeout = '50ms'
as $$
declare
  v_rate rate;
begin
  select * into v_rate from rate where key = p_key for update skip locked;
  if not found then
    begin
      insert into rate (key, spent_until, deferred_until) values (p_key, now(), now()) on conflict (key) do nothing;
      select * into v_rate from rate where key = p_key for update skip locked;
    exception when lock_not_available then
      null;
    end;
  end if;
  return v_rate;
end $$;

-- Takes up to p_wanted starts from the budget. Returns how many it took; null: that cannot be said now, see hold_rate.
create function take_rate(p_key text, p_limit integer, p_per_ms bigint, p_wanted integer) returns integer
language plpgsql set search_path from current
as $$
declare
  v_rate    rate;
  v_left    record;
  v_granted integer;
  v_rest    numeric;
begin
  v_rate := hold_rate(p_key);
  if v_rate.key is null then
    return null;
  end if;
  v_left := budget_left(v_rate, p_limit, p_per_ms);
  v_granted := least(p_wanted, v_left.room);
  if v_granted = 0 and v_left.spent >= v_rate.spent_until then
    return 0;
  end if;
  v_rest := v_left.rest + v_granted * (p_per_ms * 1000.0);
  update rate
  set spent_until = v_left.spent + div(v_rest, p_limit)::double precision * interval '1 microsecond', spent_rest = mod(v_rest, p_limit)
  where key = p_key;
  return v_granted;
end $$;

-- How many more of a queue its rate lets start now. Certain only while nobody else can take any: whoever does has the queue's lock.
create function room_in_rate(p_queue text, p_limit integer, p_per_ms bigint) returns bigint
language sql stable set search_path from current
as $$ select (budget_left((select r from rate r where r.key = 'queue/' || p_queue), p_limit, p_per_ms)).room $$;

-- When a task without budget should ask again: one step behind the last one that was put off. Those before it may be cancelled, or the limit
-- may be raised, and nobody tells this row. So no task is put off for longer than the limit's own time, or five minutes where that is shorter:
-- then it asks again.
create function defer_rate(p_key text, p_limit integer, p_per_ms bigint) returns timestamptz
language sql set search_path from current
as $$
  update rate r
  set deferred_until = least(greatest(r.deferred_until, r.spent_until - p_per_ms * interval '1 millisecond', now()) + rate_step(p_limit, p_per_ms),
                             now() + greatest(p_per_ms * interval '1 millisecond', interval '5 minutes'))
  where key = p_key
  returning deferred_until
$$;

-- Of these locked rows of `ready`, those that this replica may claim now (`admitted`). The others are moved out of the way, so that
-- the next claim does not walk over them again: parked behind their key, put off by their rate or because they are
-- suspected of having killed a worker and must run apart (see 0012), or expired. Some stay where they are, undecided: somebody else
-- has their lock at this moment (`busy`: these locks).
create function admit(p_rows tid[], p_replica uuid, out admitted tid[], out busy bigint[])
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_row      record;
  v_lock     bigint;
  v_granted  integer;
  v_keys     text[] := '{}';
  v_full     text[] := '{}';     -- keys that have no room, and whose lock we hold
  v_behind   tid[] := '{}';      -- those that go behind them, all at once in the end
  v_suspects boolean[] := '{}';  -- of those admitted, whether they run apart
begin
  admitted := '{}';
  busy := '{}';
  for v_row in
    select r.ctid as row_id, r.*, (select bool_or(s.is_apart) from suspicion s where s.task_id = r.task_id) as is_apart, t.exclusive_key, t.exclusive_limit, t.rate_key, t.rate_limit, t.rate_per_ms,
      t.id is not null as has_record
    from ready r left join task t on t.id = r.task_id
    where r.ctid = any (p_rows)
    order by r.run_at, r.task_id
  loop
    if not v_row.has_record then
      perform refuse_claim(format('the record of task %s is missing', v_row.task_id));
    elsif v_row.exclusive_key is not null and coalesce(v_row.exclusive_limit, 0) < 1 then
      perform refuse_claim(format('an exclusive limit of %s lets nothing run', v_row.exclusive_limit));
    end if;
    if v_row.expires_at <= now() then
      perform end_pending(array[v_row.task_id], 'expired', json_build_object(
        'code', 'TASK_EXPIRED', 'message', 'The task was not started before it expired at ' || v_row.expires_at || '.'));
      continue;
    end if;
    -- Not null: a suspect. Two claims of the same replica must not both see that it holds none.
    if v_row.is_apart is not null then
      v_lock := gate_lock_id('suspects', p_replica::text);
      if not pg_try_advisory_xact_lock(v_lock) then
        busy := busy || v_lock;
        continue;
      end if;
      if v_row.is_apart and v_suspects <> '{}' or true = any (v_suspects) or not may_take_suspect(p_replica, v_row.is_apart) then
        update ready set run_at = now() + interval '250 milliseconds' where ctid = v_row.row_id;
        continue;
      end if;
    end if;
    -- Not with another limit: under that there may be room for it.
    if v_row.exclusive_limit = 1 and v_row.exclusive_key = any (v_full) then
      v_behind := v_behind || v_row.row_id;
      continue;
    end if;
    if v_row.exclusive_key is not null then
      v_lock := gate_lock_id('exclusive', v_row.exclusive_key);
      continue when v_lock = any (busy);
      if not pg_try_advisory_xact_lock(v_lock) then
        busy := busy || v_lock;
        continue;
      end if;
      if (select count(*) from running where exclusive_key = v_row.exclusive_key)
         + cardinality(array_positions(v_keys, v_row.exclusive_key)) >= v_row.exclusive_limit then
        v_full := v_full || v_row.exclusive_key;
        v_behind := v_behind || v_row.row_id;
        continue;
      end if;
    end if;
    if v_row.rate_key is not null then
      v_lock := gate_lock_id('rate', v_row.rate_key);
      continue when v_lock = any (busy);
      v_granted := case when pg_try_advisory_xact_lock(v_lock) then take_rate('key/' || v_row.rate_key, v_row.rate_limit, v_row.rate_per_ms, 1) end;
      if v_granted is null then
        busy := busy || v_lock;
        continue;
      elsif v_granted = 0 then
        update ready set run_at = defer_rate('key/' || v_row.rate_key, v_row.rate_limit, v_row.rate_per_ms)
        where ctid = v_row.row_id;
        continue;
      end if;
    end if;
    admitted := admitted || v_row.row_id;
    if v_row.exclusive_key is not null then
      v_keys := v_keys || v_row.exclusive_key;
    end if;
    if v_row.is_apart is not null then
      v_suspects := v_suspects || v_row.is_apart;
    end if;
  end loop;
  if v_behind <> '{}' then
    with gone as (
      delete from ready where ctid = any (v_behind) returning *
    )
    insert into parked (task_id, queue, priority, run_at, name, attempt, failures, crashes, expires_at, exclusive_key)
    select g.task_id, g.queue, g.priority, g.run_at, g.name, g.attempt, g.failures, g.crashes, g.expires_at, t.exclusive_key
    from gone g join task t on t.id = g.task_id;
  end if;
end $$;

-- From parked to ready; the rows are locked, and so is their key. Returns where they are now. Whoever does not claim them at once
-- rings for them.
create function make_ready(p_rows tid[]) returns tid[]
language plpgsql set search_path from current
as $$
declare
  v_freed      tid[];
  v_queues     text[];
  v_priorities smallint[];
begin
  with gone as (
    delete from parked where ctid = any (p_rows) returning *
  ), put as (
    insert into ready (task_id, queue, priority, run_at, name, attempt, failures, crashes, gated, expires_at)
    select task_id, queue, priority, run_at, name, attempt, failures, crashes, true, expires_at from gone
    returning ctid as row_id, queue, priority
  )
  select coalesce(array_agg(row_id), '{}'), array_agg(queue), array_agg(priority) into v_freed, v_queues, v_priorities from put;
  perform add_lanes(v_queues, v_priorities);
  return v_freed;
end $$;

create function ring_for(p_rows tid[]) returns void
language plpgsql set search_path from current
as $$
begin
  if p_rows <> '{}' then
    perform ring(array(select distinct queue from ready where ctid = any (p_rows)));
  end if;
end $$;

-- False: somebody keeps the key's lock for longer than this. The setting is named above so that it ends with the call.
create function wait_for_key(p_key text, p_patience_ms integer) returns boolean
language plpgsql set search_path from current set lock_timeout = '200ms'
as $$
begin
  -- To the server, 0 would mean that there is no limit.
  if p_patience_ms < 1 then
    return false;
  end if;
  perform set_config('lock_timeout', p_patience_ms::text, true);
  perform pg_advisory_xact_lock(gate_lock_id('exclusive', p_key));
  return true;
exception when lock_not_available then
  return false;
end $$;

-- Lets as many parked tasks go as these keys have room for, and as many from each of their queues: one queue may be
-- paused or have no workers, and those of the others must not wait for it. What is too many parks again. Returns where they
-- are now in `ready`, and whether they are free: nothing else can hold them back, and there is room for all of them, so whoever
-- claims them in the same transaction, which has the locks of their keys, before anything else, need not ask admit() again.
create function unpark(p_keys text[], out let_go tid[], out are_free boolean)
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
  v_key   text;
  v_queue text;
  v_first record;
  v_has_key boolean;
  v_patience_ms double precision := 400; -- for all keys together
  v_asked_at timestamptz;
begin
  let_go := '{}';
  are_free := true;
  for v_key in select distinct k from unnest(p_keys) k where k is not null order by k loop
    if not pg_try_advisory_xact_lock(gate_lock_id('exclusive', v_key)) then
      -- A claim has it for a moment. Whoever has it for longer must not hold up all that ends: upkeep lets go what is left here. Each key gets half of the
      -- patience that is left, so that one which is kept leaves some for the others.
      v_asked_at := clock_timestamp();
      v_has_key := wait_for_key(v_key, floor(v_patience_ms / 2)::integer);
      v_patience_ms := v_patience_ms - greatest(0, extract(epoch from clock_timestamp() - v_asked_at) * 1000);
      continue when not v_has_key;
    end if;
    v_queue := '';
    loop
      -- Looked for once, and the others from there: before the first in line are the dead entries of all that were let go before.
      select p.ctid as row_id, p.queue, p.priority, p.run_at, p.task_id,
             -- One whose record is missing is let go, too: a claim sets it aside.
             coalesce(t.exclusive_limit, 1) - (select count(*)::integer from running u where u.exclusive_key = v_key) as room,
             p.expires_at is null and t.rate_key is null and coalesce(t.exclusive_limit, 0) = 1
               and not exists (select from suspicion s where s.task_id = p.task_id) as is_free,
             (select n.queue from parked n where n.exclusive_key = v_key and n.queue > p.queue order by n.queue limit 1) as next_queue
      into v_first
      from parked p left join task t on t.id = p.task_id
      where p.exclusive_key = v_key and p.queue >= v_queue
      order by p.queue, p.priority, p.run_at, p.task_id limit 1 for update of p skip locked;
      exit when not found or v_first.room <= 0;
      let_go := let_go || v_first.row_id;
      are_free := are_free and v_first.is_free and v_first.next_queue is null;
      if v_first.room > 1 then
        let_go := let_go || array(
          select p.ctid from parked p
          where p.exclusive_key = v_key and p.queue = v_first.queue
            and (p.priority, p.run_at, p.task_id) > (v_first.priority, v_first.run_at, v_first.task_id)
          order by p.priority, p.run_at, p.task_id limit v_first.room - 1 for update skip locked);
      end if;
      v_queue := v_first.next_queue;
      exit when v_queue is null;
    end loop;
  end loop;
  if let_go <> '{}' then
    let_go := make_ready(let_go);
  end if;
end $$;

-- A task that was let go may never be claimed: nobody knows a task of that name, for example. So that those behind it do
-- not wait for ever, the first of every kind is let go where a key is free.
create function unpark_every_kind(p_batch integer) returns integer
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
declare
  v_key   text;
  v_room  integer;
  v_freed tid[] := '{}';
begin
  perform require_read_committed();
  for v_key in select exclusive_key from (select distinct exclusive_key from parked) k order by random() limit p_batch loop
    -- Never waits: whoever has the key's lock is letting tasks go right now.
    continue when not pg_try_advisory_xact_lock(gate_lock_id('exclusive', v_key));
    select coalesce(t.exclusive_limit, 1) - (select count(*) from running where exclusive_key = v_key) into v_room
    from parked p left join task t on t.id = p.task_id
    where p.exclusive_key = v_key order by p.queue, p.priority, p.run_at, p.task_id limit 1;
    continue when not found or v_room <= 0;
    v_freed := v_freed || make_ready(array(
      select ctid from parked where ctid = any (array(
        select row_id from (
          select ctid as row_id, row_number() over (partition by queue, name order by priority, run_at, task_id) as place
          from parked where exclusive_key = v_key) p
        where place <= v_room))
      for update skip locked));
  end loop;
  perform ring_for(v_freed);
  return cardinality(v_freed);
end $$;

-- Ending: whoever ends an attempt (worker, reaper, canceller, operator) ends it here.

-- The next attempt's number. At its limit a counter stands still: an overflow would fail the whole batch, for ever.
create function one_more(p_count integer) returns integer
language sql immutable
as $$ select least(p_count, 2147483646) + 1 $$;

-- Tasks that were never claimed, or are not claimed now: cancelled or expired where they wait. Returns those it ended. The error is
-- one of ours, which can be taken apart.
create function end_pending(p_tasks uuid[], p_state text, p_error json) returns setof uuid
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
begin
  return query
    with gone as (
      delete from ready where task_id = any (p_tasks) and input is null returning task_id, attempt, failures, crashes
    ), gone_from_place as (
      delete from ready r using task t where t.id = any (p_tasks) and waits_at(r, t) returning r.task_id, r.attempt, r.failures, r.crashes
    ), unparked as (
      delete from parked where task_id = any (p_tasks) returning task_id, attempt, failures, crashes
    )
    insert into ended (task_id, state, attempt, failures, crashes, ended_at, error_code, error)
    select task_id, p_state, attempt - 1, failures, crashes, now(), p_error ->> 'code', p_error
    from (select * from gone union all select * from gone_from_place union all select * from unparked) g
    returning ended.task_id;
  perform tell_waiters(p_tasks);
end $$;

-- Wakes those who wait for one of these tasks. The board is nearly always empty, so this nearly always is nothing.
create function tell_waiters(p_tasks uuid[]) returns void
language sql set search_path from current set enable_seqscan = off set jit = off
as $$
  select notify_all('ended', w.task_id::text) from (select distinct task_id from waiter where task_id = any (p_tasks)) w
$$;

-- How the error of a task ends that was cancelled instead of run again: by this it is recognised.
create function end_of_cancelled(p_error text) returns text
language sql immutable
as $$ select coalesce(',"cause":' || p_error, '') || '}' $$;

-- What a task ends with that should have run again, had it not been asked to stop: its attempt's own error is the cause, to the letter.
create function cancelled_instead(p_error text, p_reason text) returns text
language sql immutable
as $$
  select '{"code":"TASK_CANCELLED","message":' || to_json(coalesce(p_reason, 'Cancelled by request.')) || end_of_cancelled(p_error)
$$;

-- Ends attempts, each only while its claim on its task holds: p_claims and p_tasks name both. `p_outcomes` is an array of
--   { claim, to, outcome, delayMs, failures, crashes, result, error, code, long }
-- where `to` is the task's new state: an ended one, or `pending` for another attempt after delayMs, result and
-- error are JSON within text (see enqueue), and code is that of the error. A result that is long is in p_long instead, at the place `long`. A claim that is not in it has completed, without a result: most do. A task whose
-- cancellation was asked for is cancelled instead of pending, unless somebody takes it away to run it again.
-- Returns only what was not done as asked, null if all was:
--   unknown   claims that do not hold: the caller goes on with refuse_outcomes
--   unparked  tasks that waited for an exclusive key and were let go: their rows of `ready`, which sort before what was claimed last
--   areFree   and whether they may be claimed just so (see unpark)
-- Everybody locks claims in the order of their owners and ids, and then, in one go, all exclusive keys of the statement in their order:
-- that way nobody waits in a circle. Here the order is that of the index, hence no other kind of scan.
-- If the claims come in this order, one comparison of the two lists checks all tasks. Otherwise they are compared one by one. If a claim is
-- on another task, the whole call fails (EB004). The caller then sends each claim alone, and only the wrong one is refused.
-- p_owners: who probably own them, which spares a search. They may have been taken along to another id meanwhile.
-- p_is_followed: by a claim in the same statement, which takes what was let go or rings for it.
-- p_patience_ms: for how long this transaction waits for a lock, from here on. Null: as the session has it, which is right in a user's own.
create function end_claims(
  p_claims bigint[], p_tasks uuid[], p_outcomes json, p_owners uuid[] default null, p_is_followed boolean default false, p_long json[] default '{}',
  p_patience_ms integer default null)
returns json
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_nestloop = off set enable_mergejoin = off
as $$
declare
  v_owners   uuid[] := coalesce(p_owners, owners(false));
  v_left     bigint[] := p_claims;
  v_only     uuid := case when cardinality(p_claims) = 1 then p_tasks[1] end;
  v_is_last  boolean := p_owners is null;
  v_keys     text[];
  v_queues   text[];
  v_tasks    uuid[];
  v_endless  uuid[];
  v_unparked tid[] := '{}';
  v_are_free boolean;
  v_these    record;
begin
  if p_patience_ms is not null then
    perform set_config('lock_timeout', p_patience_ms::text, true);
  end if;
  loop
    if json_array_length(p_outcomes) = 0 then
      -- The same as below for what most tasks do, at half the price.
      with gone as (
        delete from running where replica_id = any (v_owners) and claim_id = any (v_left) and (v_only is null or task_id = v_only)
        returning task_id, claim_id, replica_id, attempt, failures, crashes, claimed_at, started_at, exclusive_key, queue, limited
      ), finals as (
        insert into ended (task_id, state, claim_id, replica_id, attempt, failures, crashes, claimed_at, started_at, ended_at, result)
        select task_id, 'completed', claim_id, replica_id, attempt, failures, crashes, claimed_at, started_at, now(), 'null' from gone
      )
      select array_agg(claim_id) as claims, array_agg(exclusive_key) filter (where exclusive_key is not null) as keys,
             array_agg(queue) filter (where limited) as queues,
             array_agg(task_id) as tasks, (select exists (select from waiter)) as are_awaited,
             (select exists (select from alert where kind = 'task-stalled' and resolved_at is null)) as are_stalled, null::uuid[] as endless
      into v_these from gone;
    else
      with o as materialized (
        select * from json_to_recordset(p_outcomes) as x (
          claim bigint, "to" text, outcome text, "delayMs" bigint, failures integer, crashes integer, result text, error text, code text,
          long integer)
      ), gone as (
        delete from running where replica_id = any (v_owners) and claim_id = any (v_left) and (v_only is null or task_id = v_only) returning *
      ), finals as (
        insert into ended (task_id, state, claim_id, replica_id, attempt, failures, crashes, claimed_at, started_at, ended_at, result, error, error_code)
        select g.task_id, case o."to" when 'pending' then 'cancelled' else coalesce(o."to", 'completed') end, g.claim_id, g.replica_id, g.attempt,
               coalesce(o.failures, g.failures), coalesce(o.crashes, g.crashes), g.claimed_at, g.started_at, now(),
               case when o.claim is null then 'null' else coalesce(p_long[o.long], o.result::json) end,
               case o."to" when 'pending' then cancelled_instead(o.error, g.cancel_reason) else o.error end::json,
               case o."to" when 'pending' then 'TASK_CANCELLED' else o.code end
        from gone g left join o on o.claim = g.claim_id
        where o."to" is distinct from 'pending' or g.cancel_requested_at is not null and o.outcome <> 'taken'
      ), again as (
        insert into attempt (claim_id, task_id, replica_id, attempt, claimed_at, started_at, ended_at, outcome, result, error)
        select g.claim_id, g.task_id, g.replica_id, g.attempt, g.claimed_at, g.started_at, now(), o.outcome, coalesce(p_long[o.long], o.result::json), o.error::json
        from gone g join o on o.claim = g.claim_id
        where o."to" = 'pending' and (g.cancel_requested_at is null or o.outcome = 'taken')
        returning task_id, attempt
      ), back as (
        insert into ready (task_id, queue, priority, run_at, name, attempt, failures, crashes, gated, expires_at)
        select g.task_id, g.queue, g.priority, now() + make_interval(secs => coalesce(o."delayMs", 0) / 1000.0), g.name,
               one_more(g.attempt), coalesce(o.failures, g.failures), coalesce(o.crashes, g.crashes),
               g.gated or is_suspect(g.task_id), g.expires_at
        from gone g join o on o.claim = g.claim_id
        where o."to" = 'pending' and (g.cancel_requested_at is null or o.outcome = 'taken')
        returning queue, priority, run_at
      )
      select (select array_agg(claim_id) from gone) as claims,
             (select array_agg(exclusive_key) from gone where exclusive_key is not null) as keys,
             -- A place in a queue with a limit may be what an idle worker elsewhere is waiting for.
             (select array_agg(queue) from (
                select queue from back where run_at <= now() + interval '10 seconds' union select queue from gone where limited) q) as queues,
             (select array_agg(task_id) from gone) as tasks, (select exists (select from waiter)) as are_awaited,
             (select exists (select from alert where kind = 'task-stalled' and resolved_at is null)) as are_stalled,
             (select array_agg(task_id) from again where attempt % 50 = 0 or attempt = 2147483647) as endless,
             (select array_agg(queue) from back) as back_queues, (select array_agg(priority) from back) as back_priorities
      into v_these;
      if v_these.back_queues is not null then
        perform add_lanes(v_these.back_queues, v_these.back_priorities);
      end if;
    end if;
    v_keys := v_keys || v_these.keys;
    v_queues := v_queues || v_these.queues;
    v_endless := v_endless || v_these.endless;
    if v_these.are_awaited then
      v_tasks := v_tasks || v_these.tasks;
    end if;
    -- Hardly ever is one of these alerts open. So an end of a task costs one look at their index, and writes nothing more.
    if v_these.are_stalled then
      perform resolve_stall_alerts(v_these.tasks);
    end if;
    if v_these.tasks = p_tasks and v_these.claims = p_claims then
      v_left := '{}';
      exit;
    end if;
    perform from unnest(v_these.claims, v_these.tasks) g (claim, task) join unnest(p_claims, p_tasks) n (claim, task) on n.claim = g.claim
    where n.task <> g.task;
    if found then
      raise exception 'one of these claims is on another task than it was said to be' using errcode = 'EB004';
    end if;
    v_left := array(select c from unnest(v_left) c where c <> all (coalesce(v_these.claims, '{}')));
    exit when v_left = '{}' or v_is_last;
    v_owners := array(select o from unnest(owners(false)) o where o <> all (p_owners));
    v_is_last := true;
  end loop;

  if v_tasks is not null then
    perform tell_waiters(v_tasks);
  end if;
  if v_endless is not null then
    perform trim_attempts(v_endless);
  end if;
  if v_keys is not null then
    select let_go, are_free into v_unparked, v_are_free from unpark(v_keys);
    if not p_is_followed then
      perform ring_for(v_unparked);
    end if;
  end if;
  if v_queues is not null then
    perform ring(array(select distinct q from unnest(v_queues) q));
  end if;
  if v_left = '{}' and v_unparked = '{}' then
    return null;
  end if;
  -- Claim ids as text, because TypeScript handles them as text.
  return json_build_object('unparked', v_unparked::text[], 'areFree', v_are_free, 'unknown', v_left::text[]);
end $$;

-- Outcomes of claims that do not hold: `repeat` where this very outcome was written before and the reply was lost; kept as
-- `late` where the claim had been lost. Each says besides whose it is: { claim, task, replica, to, outcome, confirm, result, error }.
-- A task that completed in a transaction with an old snapshot (repeatable read) could not see which tasks wait for its exclusive key by then.
-- So that is looked at again here, where its worker asks whether the transaction has committed.
create function refuse_outcomes(p_outcomes json) returns table (claim bigint, verdict text)
language plpgsql set search_path from current
as $$
declare
  v_keys text[] := array(
    select t.exclusive_key from json_to_recordset(p_outcomes) as x (task uuid, confirm boolean) join task t on t.id = x.task
    where x.confirm and t.exclusive_key is not null);
begin
  if v_keys <> '{}' then
    perform ring_for((select let_go from unpark(v_keys)));
  end if;
  return query
  with o as materialized (
    select x.* from json_to_recordset(p_outcomes) as x (
      claim bigint, task uuid, replica uuid, "to" text, outcome text, confirm boolean, result text, error text)
  ), judged as (
    select o.*, exists (
        select from ended e
        where e.task_id = o.task and e.claim_id = o.claim
          and (e.state = o."to" and e.result::text is not distinct from o.result and e.error::text is not distinct from o.error
               or o."to" = 'pending' and e.state = 'cancelled' and right(e.error::text, char_length(end_of_cancelled(o.error))) = end_of_cancelled(o.error)
               or o.confirm and e.state = 'completed')
      ) or exists (
        select from attempt a
        where a.claim_id = o.claim and a.task_id = o.task and a.outcome = o.outcome and a.error::text is not distinct from o.error
      ) as is_repeat
    from o
  ), kept as (
    insert into late (claim_id, task_id, replica_id, outcome, result, error)
    select j.claim, j.task, j.replica, j.outcome, j.result::json, j.error::json from judged j where not j.is_repeat
  )
  select j.claim, case when j.is_repeat then 'repeat' else 'late' end from judged j;
end $$;

-- The rights of a transaction of the user's own: checked when it commits, not before, so that a process that
-- is paused in the middle of it does not keep a lock on its claim, and recovery need not wait for it.
--
-- The first check of a transaction does all of them, so that claims are locked in the order in which everybody locks them, and keys after
-- them, whatever the order in which they were asked for. Under repeatable read and serializable the claims are looked for in the
-- transaction's old snapshot: what has changed since fails it (40001).
create function check_at_commit() returns trigger
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
declare
  v_all  record;
  v_held bigint[];
  v_lost bigint;
begin
  with these as (
    delete from commit_check where xact = pg_current_xact_id() returning *
  )
  select array_agg(claim_id) as claims, array_agg(task_id) as tasks, bool_or(asked_at = statement_timestamp()) as are_alone,
         array_agg(claim_id) filter (where outcome is not null) as ended, array_agg(task_id) filter (where outcome is not null) as ended_tasks,
         json_agg(outcome) filter (where outcome is not null) as outcomes
  into v_all from (select * from these order by claim_id) t;
  if v_all.claims is null then
    return null;
  end if;
  -- The statement that asked is the one that commits. So it was not in a transaction with the writes that it should guard.
  if v_all.are_alone then
    raise exception 'there is no transaction that could be checked when it commits' using errcode = 'EB006';
  end if;
  -- Claims that only have to hold are locked against whoever would end them. If others end here too, all are locked for that, in one order.
  -- The same query is here twice, because the strength of a lock cannot be a parameter.
  if v_all.ended is null then
    v_held := array(
      select claim_id from running
      where replica_id = any ((select owners(false))::uuid[]) and claim_id = any (v_all.claims) and state = 'running'
        and coalesce((claim_id, task_id) in (select * from unnest(v_all.claims, v_all.tasks)), false)
      order by replica_id, claim_id for share);
  elsif cardinality(v_all.ended) < cardinality(v_all.claims) then
    v_held := array(
      select claim_id from running
      where replica_id = any ((select owners(false))::uuid[]) and claim_id = any (v_all.claims) and state = 'running'
        and coalesce((claim_id, task_id) in (select * from unnest(v_all.claims, v_all.tasks)), false)
      order by replica_id, claim_id for update);
  end if;
  select min(c) into v_lost from unnest(v_all.claims) c where c <> all (v_held);
  if v_lost is not null then
    raise exception 'claim % no longer holds: the transaction that it guards must not commit', v_lost using errcode = 'EB001';
  end if;
  if v_all.ended is null then
    return null;
  end if;
  v_lost := end_claims(v_all.ended, v_all.ended_tasks, v_all.outcomes) -> 'unknown' ->> 0;
  if v_lost is not null then
    raise exception 'claim % no longer holds: its task cannot be completed by this transaction', v_lost using errcode = 'EB001';
  end if;
  return null;
end $$;

create constraint trigger commit_check_at_commit after insert on commit_check
deferrable initially deferred for each row execute function check_at_commit();
-- The trigger also fires with session_replication_role = replica. Otherwise a guard would check nothing there, and nobody would notice.
alter table commit_check enable always trigger commit_check_at_commit;

-- Whether two JSON documents have the same value: keys may be in another order. PostgreSQL refuses to compare documents in which
-- a string holds \u0000 or half a surrogate pair. So all escapes with a \u are compared as the text that they are written in. Every backslash of
-- a string is first written as such an escape too, so that no other string comes to look the same.
create function is_same_json(p_one text, p_other text) returns boolean
language plpgsql immutable
as $$
begin
  if p_one = p_other then
    return true;
  end if;
  p_one := replace(replace(p_one, E'\\\\', E'\\u005c'), E'\\u', E'\\\\u');
  p_other := replace(replace(p_other, E'\\\\', E'\\u005c'), E'\\u', E'\\\\u');
  return p_one::jsonb = p_other::jsonb;
end $$;

-- Called inside the user's transaction: fails at once where the claim is lost already, and again at commit. There is one check for
-- each claim, however often it is asked for. A claim that was only guarded may be completed later in the same transaction.
create function guard_claim(p_claim bigint, p_task uuid, p_outcome json) returns void
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
begin
  perform from running
  where replica_id = any ((select owners(false))::uuid[]) and claim_id = p_claim and task_id = p_task and state = 'running';
  if not found then
    raise exception 'claim % no longer holds', p_claim using errcode = 'EB001';
  end if;
  -- The transaction may have set its constraints to immediate before.
  set constraints commit_check_at_commit deferred;
  insert into commit_check (claim_id, task_id, outcome) values (p_claim, p_task, p_outcome) on conflict do nothing;
  if found or p_outcome is null then
    return;
  end if;
  update commit_check set outcome = coalesce(outcome, p_outcome)
  where xact = pg_current_xact_id() and claim_id = p_claim
    and (outcome is null or is_same_json(outcome ->> 'result', p_outcome ->> 'result'));
  if not found then
    raise exception 'claim % was completed in this transaction before, with another result', p_claim using errcode = 'EB007';
  end if;
end $$;

-- Ends these claims all in the same way, where they are (still) with these owners and in p_states. Returns their tasks. The error is
-- one of ours, as in end_pending.
create function end_alike(
  p_claims bigint[], p_tasks uuid[], p_owners uuid[], p_states text[], p_to text, p_outcome text, p_error json) returns setof uuid
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
declare
  v_held record;
begin
  with held as materialized (
    select claim_id, task_id, replica_id from running
    where replica_id = any (p_owners) and claim_id = any (p_claims) and state = any (p_states)
      and coalesce((claim_id, task_id) in (select * from unnest(p_claims, p_tasks)), false)
    order by replica_id, claim_id for update
  )
  select array_agg(claim_id) as claims, array_agg(task_id) as tasks,
         json_agg(json_build_object('claim', claim_id, 'task', task_id, 'replica', replica_id, 'to', p_to, 'outcome', p_outcome, 'error', p_error::text, 'code', p_error ->> 'code')) as outcomes
  into v_held from held;
  if v_held.claims is not null then
    perform end_claims(v_held.claims, v_held.tasks, v_held.outcomes, p_owners);
    return query select unnest(v_held.tasks);
  end if;
end $$;

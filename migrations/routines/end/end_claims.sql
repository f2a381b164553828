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
create or replace function end_claims(
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
  v_ended    uuid[];
  v_again    uuid[];
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
             array_agg(task_id) as tasks, null::uuid[] as again, null::uuid[] as endless
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
             (select array_agg(task_id) from gone) as tasks, (select array_agg(task_id) from again) as again,
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
    -- What runs again is seldom more than a few. So that is what the statement says, and not what has ended.
    v_ended := v_ended || case when v_these.again is null then v_these.tasks else without(v_these.tasks, v_these.again) end;
    v_again := v_again || v_these.again;
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

  perform after_end(v_ended, v_again);
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

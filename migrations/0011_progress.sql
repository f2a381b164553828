-- What a running attempt says of itself (its phase, its progress, its last log lines), and what is seen of a main thread
-- that has stopped turning its loop. Beside `running`, so that the rows every claim and every end goes through stay narrow.

-- One row per attempt that has reported anything, kept for as long as its task is on record.
create table progress (
  claim_id   bigint primary key,
  task_id    uuid not null,
  phase      text,
  details    json,
  share      double precision check (share between 0 and 1),
  done       double precision,
  total      double precision,
  note       text,
  changed_at timestamptz,        -- the last sign of getting on: another phase, another share; null: it has only logged
  log        json,               -- its last log lines, oldest first
  logged_at  timestamptz
) with (fillfactor = 60);
create index progress_task on progress (task_id);

-- Reports of many attempts in one statement, each only while its claim on its task holds. `p_reports` is an array of
--   { claim, task, phase, details, share, done, total, note, log, isSign }
-- where details and log are JSON within text, log is left out where no line has come, and isSign tells a report from mere log lines.
-- Returns the claims whose row somebody else has locked. These are passed over: the ends of other tasks wait for their reports, and must not
-- wait for that lock.
create function write_progress(p_claims bigint[], p_reports json) returns setof bigint
language sql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_nestloop = off set enable_mergejoin = off
as $$
  with free as materialized (
    select claim_id from progress where claim_id = any (p_claims) for update skip locked
  ), locked as materialized (
    select claim_id from progress where claim_id = any (p_claims) except select claim_id from free
  ), written as (
  insert into progress as p (claim_id, task_id, phase, details, share, done, total, note, changed_at, log, logged_at)
  select u.claim_id, u.task_id, x.phase, x.details::json, x.share, x.done, x.total, x.note, case when x."isSign" then now() end,
         x.log::json, case when x.log is not null then now() end
  from running u join json_to_recordset(p_reports) as x (
    claim bigint, task uuid, phase text, details text, share double precision, done double precision, total double precision, note text,
    log text, "isSign" boolean) on x.claim = u.claim_id and x.task = u.task_id
  where u.replica_id = any ((select owners())::uuid[]) and u.claim_id = any (p_claims) and u.state = 'running'
    and not exists (select from locked l where l.claim_id = u.claim_id)
  on conflict (claim_id) do update
  set phase = excluded.phase, details = excluded.details, share = excluded.share, done = excluded.done, total = excluded.total,
      note = excluded.note, changed_at = coalesce(excluded.changed_at, p.changed_at),
      log = coalesce(excluded.log, p.log), logged_at = coalesce(excluded.logged_at, p.logged_at)
  where p.task_id = excluded.task_id
  )
  select claim_id from locked
$$;

-- How long an attempt has not got on: counted from its last sign, but not from before it began, nor from before anyone
-- could be heard (see silent_ms). A stamp that lies far ahead was made by another server's clock, or before this one was set back far
-- enough to begin to listen anew, and proves nothing; one that lies a little ahead is as good as now.
create function quiet_ms(p_changed_at timestamptz, p_started_at timestamptz, p_hearing_since timestamptz, p_now timestamptz) returns double precision
language sql immutable
as $$
  select extract(epoch from p_now - greatest(
    case when p_changed_at <= p_now + interval '1 minute' then least(p_changed_at, p_now) end,
    case when p_started_at <= p_now + interval '1 minute' then least(p_started_at, p_now) end, p_hearing_since)) * 1000
$$;

-- The attempts that have not got on for longer than their definition allows. An owner that is not heard itself is judged by
-- its heart, not by what it cannot write. Where no definition says `stalledAfter`, this is one look at a small table; where one
-- does, a walk over `running`, which has no index for it: it would cost every claim and every end.
create function find_stalled() returns table (
  claim_id bigint, task_id uuid, replica_id uuid, name text, attempt integer, failures integer, quiet_for_ms double precision,
  stalled_after_ms bigint, settings json, phase text, details json, share double precision, note text)
language plpgsql set search_path from current set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
  v_names     text[];
  v_shortest  bigint;
  v_listening listening;
  v_now       timestamptz := clock_timestamp();
begin
  select array_agg(d.name), min(d.stalled_after_ms) into v_names, v_shortest from definition d where d.stalled_after_ms is not null;
  if v_shortest is null then
    return;
  end if;
  select * into v_listening from listening where epoch = current_epoch();
  -- Nobody has been heard for long enough to be too quiet; or the clock was set back during this sweep.
  if v_listening.epoch is null or v_listening.swept_at > v_now or quiet_ms(null, null, v_listening.hearing_since, v_now) <= v_shortest then
    return;
  end if;
  return query
    with candidate as materialized (
      select u.* from running u
      where u.state = 'running' and u.name = any (v_names) and u.cancel_requested_at is null
        and quiet_ms(null, u.started_at, v_listening.hearing_since, v_now) > v_shortest
    ), watched as materialized (
      select d.name, d.stalled_after_ms, d.settings from definition d where d.name = any (v_names)
    ), heard as materialized (
      select h.replica_id from heart h join replica r on r.id = h.replica_id
      where r.status in ('online', 'draining') and silent_ms(h, r.started_at, v_listening) < 3 * h.interval_ms
    )
    select u.claim_id, u.task_id, u.replica_id, u.name, u.attempt, u.failures,
           quiet_ms(p.changed_at, u.started_at, v_listening.hearing_since, v_now),
           w.stalled_after_ms, w.settings, p.phase, p.details, p.share, p.note
    from candidate u
    join watched w on w.name = u.name
    join heard h on h.replica_id = u.replica_id
    -- One probe for each, however much is on record of tasks that have ended.
    left join lateral (select * from progress where progress.claim_id = u.claim_id offset 0) p on true
    where quiet_ms(p.changed_at, u.started_at, v_listening.hearing_since, v_now) > w.stalled_after_ms
    order by u.claim_id;
end $$;

-- Ends attempts for having stalled, each only if it is still as quiet as it was judged to be: their rows are locked first, then
-- looked at anew. What somebody else has locked is left for the next look. Tells their replicas. Returns the claims that were ended.
create function end_stalled(p_claims bigint[], p_tasks uuid[], p_after_ms double precision[], p_outcomes json) returns setof bigint
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set lock_timeout = '500ms'
as $$
declare
  v_owners   uuid[] := owners();
  v_claims   bigint[];
  v_tasks    uuid[];
  v_outcomes json;
begin
  v_claims := array(
    select claim_id from running
    where replica_id = any (v_owners) and claim_id = any (p_claims)
      and coalesce((claim_id, task_id) in (select * from unnest(p_claims, p_tasks)), false)
    order by replica_id, claim_id for update skip locked);
  select array_agg(u.claim_id order by u.claim_id), array_agg(u.task_id order by u.claim_id) into v_claims, v_tasks
  from running u left join progress p on p.claim_id = u.claim_id join listening l on l.epoch = current_epoch() and l.swept_at <= clock_timestamp()
  where u.replica_id = any (v_owners) and u.claim_id = any (v_claims)
    and quiet_ms(p.changed_at, u.started_at, l.hearing_since, clock_timestamp()) > p_after_ms[array_position(p_claims, u.claim_id)];
  if v_claims is null then
    return;
  end if;
  perform notify_all('changed', r.replica_id::text)
  from (select distinct replica_id from running where replica_id = any (v_owners) and claim_id = any (v_claims)) r;
  select json_agg(o) into v_outcomes from json_array_elements(p_outcomes) o where (o ->> 'claim')::bigint = any (v_claims);
  perform end_claims(v_claims, v_tasks, v_outcomes);
  return query select unnest(v_claims);
end $$;

-- The alerts about stalled attempts of these tasks are over, because the attempts are. Whoever ends them says so, and not only the next
-- sweep: perhaps nobody sweeps. No end of a task may fail or wait on account of an alert. So the next sweep is left with those that
-- somebody has locked, with those that cannot be written, of which it tells why, and with all of them in a transaction with an old
-- snapshot, which an alert that has changed since would make fail.
create function resolve_stall_alerts(p_tasks uuid[]) returns void
language plpgsql set search_path from current
as $$
begin
  if sees_the_past() then
    return;
  end if;
  update alert set resolved_at = now()
  where id = any (array(
    select id from alert where kind = 'task-stalled' and subject = any (p_tasks::text[]) and resolved_at is null for update skip locked));
exception when others then
  null;
end $$;

-- Threads that stopped turning their loop: one row per blockage, of the replica's main thread, as its own heart sees it, or of a runner.
create table blocked_loop (
  id         bigint generated always as identity primary key,
  replica_id uuid not null,
  runner_id  uuid,                        -- null: the replica's main thread
  began_at   timestamptz not null,
  seen_at    timestamptz not null,
  blocked_ms double precision not null,   -- when it was last seen
  ended_at   timestamptz,                 -- the loop turned again; null: not yet, or never
  stack      text,                        -- where the thread was, as of the last look that got an answer
  paused_ms  double precision,            -- how long it took to answer
  tasks      json not null                -- what was running there: the first twenty
);
create index blocked_loop_replica on blocked_loop (replica_id, id);

-- A blockage is noted when it is first seen and again as it lasts. Returns its id, and the alert stays open while it lasts.
create function note_blocked_loop(
  p_id bigint, p_replica uuid, p_runner uuid, p_claims bigint[], p_tasks uuid[], p_blocked_ms double precision, p_stack text, p_paused_ms double precision, p_message text)
returns bigint
language plpgsql set search_path from current
as $$
declare
  -- One that is open is this one: the reply that named it was lost.
  v_id bigint := coalesce(p_id, (
    select max(id) from blocked_loop where replica_id = p_replica and runner_id is not distinct from p_runner and ended_at is null));
begin
  -- Whoever asks about one of these tasks is not to wait for the beat that tells where it runs.
  if p_runner is not null then
    update running u set runner_id = p_runner
    where replica_id = p_replica and claim_id in (
      select claim_id from running
      where replica_id = p_replica and claim_id = any (p_claims) and runner_id is distinct from p_runner
        and coalesce((claim_id, task_id) in (select * from unnest(p_claims, p_tasks)), false)
      for update skip locked);
  end if;
  if v_id is null then
    insert into blocked_loop (replica_id, runner_id, began_at, seen_at, blocked_ms, stack, paused_ms, tasks)
    select p_replica, p_runner, clock_timestamp() - make_interval(secs => p_blocked_ms / 1000.0), clock_timestamp(), p_blocked_ms, p_stack, p_paused_ms,
           coalesce((select json_agg(json_build_object('claimId', u.claim_id::text, 'taskId', u.task_id, 'name', u.name)) from (
             select claim_id, task_id, name from running
             where replica_id = p_replica and state = 'running'
               and case when p_claims is null then runner_id is null else (claim_id, task_id) in (select * from unnest(p_claims, p_tasks)) end
             order by claim_id limit 20) u), '[]')
    returning id into v_id;
  else
    -- A replica that was taken for dead goes on under another id.
    update blocked_loop set replica_id = p_replica, seen_at = clock_timestamp(), blocked_ms = p_blocked_ms, stack = coalesce(p_stack, stack),
           paused_ms = coalesce(p_paused_ms, paused_ms)
    where id = v_id;
  end if;
  insert into alert (kind, subject, message, details)
  select 'loop-blocked', coalesce(p_runner, p_replica)::text, p_message, json_build_object('blockedLoop', v_id, 'stack', p_stack, 'tasks', b.tasks)
  from blocked_loop b where b.id = v_id
  on conflict (kind, subject) where resolved_at is null do update set message = excluded.message, details = excluded.details;
  return v_id;
end $$;

create function note_loop_turned(p_id bigint, p_blocked_ms double precision) returns void
language sql set search_path from current
as $$
  update blocked_loop set ended_at = clock_timestamp(), blocked_ms = p_blocked_ms where id = p_id and ended_at is null;
  update alert a set resolved_at = now() from blocked_loop b
  where b.id = p_id and a.kind = 'loop-blocked' and a.subject = coalesce(b.runner_id, b.replica_id)::text and a.resolved_at is null;
$$;

-- The heart's last word before it ends its own process, whose loop is blocked: these attempts have ended, and the replica is
-- dead, so that whoever sweeps next recovers the rest. False: it had been declared dead, or has left.
create function end_blocked_replica(p_replica uuid, p_claims bigint[], p_tasks uuid[], p_outcomes json, p_death json) returns boolean
language plpgsql set search_path from current
as $$
begin
  perform from replica where id = p_replica and status in ('online', 'draining') for update;
  if not found then
    return false;
  end if;
  update heart set is_dead = true where replica_id = p_replica;
  update replica set status = 'dead', died_at = clock_timestamp(), death = p_death where id = p_replica;
  if cardinality(p_claims) > 0 then
    perform end_claims(p_claims, p_tasks, p_outcomes, array[p_replica]);
  end if;
  return true;
end $$;

-- What no worker can claim: rows that raise an error in the middle of a claim, such as a limit of zero that was written by hand, or a
-- task without its record. A claim takes many rows in one statement, and fails as a whole. Then its worker calls set_aside_bad, which
-- finds out by trying which rows it is, and takes these out of the way. So a claim itself pays nothing for this.
--
-- One row cannot fail all claims for long, whatever is wrong with it. What is tried is the very claim that failed, and each call finds the queue in
-- which it fails: of that queue, rows are set aside; where none is found to be at fault, the queue is paused. The worker calls again until the claim would
-- go through.
--
-- An error may also concern every row, such as that of a trigger on `running`, or of a damaged index. Then no task is to blame, and none fails. A row that
-- we ourselves refuse (EB005) is at fault in any case. Any other is set aside only if claims work apart from it: other rows can be claimed.
-- Where none can, everything stays where it is, with an alert, and the worker tries again after a while.

-- Why a queue was paused that nobody has paused: nothing can be claimed from it. Null once its settings are changed or it is resumed.
alter table queue add column trouble text;

-- Whether an error says something about the rows at hand, and not about the server, a lock or a connection. The same list is in isAboutTheValues.
create function is_about_rows(p_sqlstate text) returns boolean
language sql immutable
as $$
  select p_sqlstate ~ '^(09|21|22|23|27|38|39|44|54001|P0|EB004|EB005|XX001|XX002)'
    or p_sqlstate !~ '^(0[0-3ABFLPZ]|0[89]|10|2[0-8BDF]|34|38|39|3[BDF]|40|42|44|53|54|55|57|58|72|F0|HV|P0|XX|EB)'
$$;

-- A claim as it was asked for (see claim_tasks).
create type asked_claim as (
  replica uuid, names text[], queues text[], room integer[], run integer, prefetch integer, reserve integer,
  cursor_lane uuid[], cursor_run_at timestamptz[], cursor_task uuid[], seen timestamptz, last_lane uuid
);

-- Makes it again, in these queues.
create function repeat_claim(p_claim asked_claim, p_queues text[]) returns setof claim_row
language sql set search_path from current
as $$
  select * from claim_tasks(p_claim.replica, p_claim.names, p_queues,
    array(select p_claim.room[array_position(p_claim.queues, q)] from unnest(p_queues) with ordinality as u (q, place) order by place),
    p_claim.run, p_claim.prefetch, p_claim.cursor_lane, p_claim.cursor_run_at, p_claim.cursor_task,
    p_reserve => p_claim.reserve, p_seen => p_claim.seen, p_last_lane => p_claim.last_lane)
$$;

-- Why it fails in these queues; null if it does not. Nothing of it stays.
create function claim_trouble(p_claim asked_claim, p_queues text[]) returns text
language plpgsql set search_path from current
as $$
begin
  perform repeat_claim(p_claim, p_queues);
  raise exception using errcode = 'EB999'; -- it does not
exception when others then
  if sqlstate <> 'EB999' and not is_about_rows(sqlstate) then
    raise;
  end if;
  return case when sqlstate <> 'EB999' then format('%s (%s)', sqlerrm, sqlstate) end;
end $$;

-- Whether it takes anything in these queues, in which it does not fail at first. What it takes does not stay. What it only moves out of the way
-- (parked, put off, expired) does, and the claim goes on behind that for a second at most. The whole claim fails in another queue each time, and so
-- would never come further by itself.
create function claim_takes(p_claim asked_claim, p_queues text[]) returns boolean
language plpgsql set search_path from current
as $$
declare
  v_end   timestamptz := clock_timestamp() + interval '1 second';
  v_more  boolean;
  v_takes boolean;
begin
  loop
    begin
      select bool_or(c.claim_id is not null), bool_or(c.state = 'more') into v_takes, v_more from repeat_claim(p_claim, p_queues) c;
      if v_takes then
        raise exception using errcode = 'EB999';
      end if;
    exception when others then
      if sqlstate <> 'EB999' and not is_about_rows(sqlstate) then
        raise;
      end if;
      return sqlstate = 'EB999';
    end;
    exit when v_more is not true or clock_timestamp() > v_end;
  end loop;
  return false;
end $$;

-- Of these queues, some in which the claim fails together, and not if the last is left out. Null if it does not fail at all. They
-- are tried in the order in which they are given.
create function failing_queues(p_claim asked_claim, p_queues text[]) returns text[]
language plpgsql set search_path from current
as $$
declare
  v_queues text[] := array(
    select u.name from unnest(p_queues) with ordinality as u (name, place) left join queue q on q.name = u.name
    where q.paused is not true order by u.place);
  v_well   integer := 0;
  v_fails  integer := cardinality(v_queues);
  v_middle integer;
begin
  if claim_trouble(p_claim, v_queues) is null then
    return null;
  end if;
  while v_fails - v_well > 1 loop
    v_middle := (v_well + v_fails) / 2;
    if claim_trouble(p_claim, v_queues[: v_middle]) is null then
      v_well := v_middle;
    else
      v_fails := v_middle;
    end if;
  end loop;
  return v_queues[: v_fails];
end $$;

-- Whether the claim takes anything in some of these queues. Those in which it fails are left out one after the other. Where there are many of them,
-- this gives up after a second and returns false. The order is another each time, so that no queue is always behind those in which the claim fails.
create function claim_takes_somewhere(p_claim asked_claim, p_queues text[]) returns boolean
language plpgsql set search_path from current
as $$
declare
  v_end     timestamptz := clock_timestamp() + interval '1 second';
  v_queues  text[] := array(select q from unnest(p_queues) q order by random());
  v_failing text[];
begin
  loop
    v_failing := failing_queues(p_claim, v_queues);
    if v_failing is null then
      return claim_takes(p_claim, v_queues);
    end if;
    -- It does not fail in those before the last.
    if claim_takes(p_claim, v_failing[: cardinality(v_failing) - 1]) then
      return true;
    elsif clock_timestamp() > v_end then
      return false;
    end if;
    v_queues := array_remove(v_queues, v_failing[cardinality(v_failing)]);
  end loop;
end $$;

create type bad_row as (place ready, reason text, code text);

-- Which of these rows of a queue's, which are locked, cannot be claimed, and why. All of them are tried at once, and where that fails, each half of
-- them, the second after what could be claimed of the first: a row may be bad only because another was claimed before it. Those that can be
-- claimed are claimed afterwards (`claimed`: how many): the caller takes that back.
create function bad_rows(p_rows tid[], p_queue text, p_claim asked_claim, out bad bad_row[], out claimed integer)
language plpgsql set search_path from current
as $$
declare
  v_middle integer := cardinality(p_rows) / 2;
  v_lanes  uuid[] := array(select id from lane where queue = p_queue);
  -- The end of each lane. Every task is due before that time, so it does not matter which task the cursor names.
  v_times  timestamptz[] := array_fill('infinity'::timestamptz, array[cardinality(v_lanes)]);
  v_tasks  uuid[] := array_fill('00000000-0000-0000-0000-000000000000'::uuid, array[cardinality(v_lanes)]);
  v_code   text;
  v_reason text;
  v_second record;
begin
  begin
    -- As if they had just been let go, and from the end of each lane on nothing else. A trial goes by no limit of the queue, since
    -- that would leave out some of them.
    bad := '{}';
    claimed := (select count(*) from claim_tasks(p_claim.replica, p_claim.names, array[p_queue], array[null::integer], cardinality(p_rows), 0,
      v_lanes, v_times, v_tasks,
      p_ended => json_build_object('unparked', p_rows::text[], 'areFree', false, 'isTrial', true)) c where c.claim_id is not null);
    return;
  exception when others then
    if not is_about_rows(sqlstate) then
      raise;
    end if;
    v_code := sqlstate;
    v_reason := format('%s (%s)', sqlerrm, sqlstate);
  end;
  claimed := 0;
  if v_middle = 0 then
    bad := array(select row(r, v_reason, v_code)::bad_row from ready r where r.ctid = p_rows[1]);
    return;
  end if;
  select * into bad, claimed from bad_rows(p_rows[: v_middle], p_queue, p_claim);
  select * into v_second from bad_rows(p_rows[v_middle + 1 :], p_queue, p_claim);
  bad := bad || v_second.bad;
  claimed := claimed + v_second.claimed;
end $$;

-- Of what this claim can come to in a queue, some that cannot be claimed: the first of them at least. p_after: before the trial, the claim is
-- made in these queues. `claimed`: how many others of the queue could be claimed. Where that is none before the bad ones, those behind them and
-- of lower priority are tried too, for a second at most: only a row that can be claimed shows that the bad ones are to blame. Nothing of it stays.
create function first_bad_rows(p_queue text, p_claim asked_claim, p_after text[], out bad bad_row[], out claimed integer)
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  c_chunk  constant integer := 100;
  -- In each lane, as often as a claim picks rows (c_rounds and c_passes there), as many as it wants. Any number once bad ones were found.
  c_most   constant integer := 72 * (p_claim.run + p_claim.reserve + p_claim.prefetch);
  v_lane   record;
  v_chunk  record;
  v_tried  integer;
  v_trial  record;
  v_end    timestamptz := clock_timestamp() + interval '1 second';
begin
  bad := '{}';
  claimed := 0;
  perform repeat_claim(p_claim, p_after);
  <<by_lane>>
  for v_lane in
    select l.priority, c.after_run_at, c.after_task
    from lane l
    left join queue q on q.name = l.queue
    cross join lateral search_begins(q, l.id, p_claim.cursor_lane, p_claim.cursor_run_at, p_claim.cursor_task, p_claim.seen) c
    where l.queue = p_queue
    order by l.priority, l.id
  loop
    v_tried := 0;
    while v_tried < c_most or cardinality(bad) > 0 loop
      select array_agg(f.row_id) as rows, count(*)::integer as count, (array_agg(f.run_at))[count(*)] as run_at, (array_agg(f.task_id))[count(*)] as task_id
      into v_chunk
      from (
        select r.ctid as row_id, r.run_at, r.task_id from ready r
        where r.queue = p_queue and r.priority = v_lane.priority and r.run_at <= now()
          and (r.run_at, r.task_id) > (v_lane.after_run_at, v_lane.after_task) and r.name = any (p_claim.names)
        order by r.run_at, r.task_id
        limit c_chunk
        for update skip locked
      ) f;
      exit when v_chunk.rows is null;
      select * into v_trial from bad_rows(v_chunk.rows, p_queue, p_claim);
      claimed := claimed + v_trial.claimed;
      if cardinality(bad) = 0 then
        bad := v_trial.bad;
      end if;
      exit by_lane when cardinality(bad) > 0 and (claimed > 0 or clock_timestamp() > v_end);
      v_lane.after_run_at := v_chunk.run_at;
      v_lane.after_task := v_chunk.task_id;
      v_tried := v_tried + v_chunk.count;
    end loop;
  end loop;
  raise exception using errcode = 'EB999';
exception when sqlstate 'EB999' then
  null;
end $$;

-- One for each kind and subject while it is open. False: it is open already.
create function raise_alert(p_kind text, p_subject text, p_message text, p_details json, p_part text default null) returns boolean
language sql set search_path from current
as $$
  with raised as (
    insert into alert (kind, part, subject, message, details) values (p_kind, p_part, p_subject, p_message, p_details)
    on conflict (kind, subject) where resolved_at is null do nothing returning id
  )
  select exists (select from raised)
$$;

-- A row that cannot be claimed: its task fails, and can be retried when what is wrong has been put right. Where the task is pending, running or
-- ended elsewhere, the row is one too many and only it goes. Where the database refuses that too, the row is put off for a while; so it is where its
-- task must not fail (p_stays), since it may be all right later.
create function set_aside(p_bad bad_row, p_stays boolean) returns table (task_id uuid, name text, queue text, reason text)
language plpgsql set search_path from current
as $$
#variable_conflict use_column
declare
  v_row     ready := p_bad.place;
  v_message text := format('No worker can claim it: %s.', p_bad.reason);
  v_how     text := format('was set aside. %s Put that right, then: everbeat tasks retry %s', v_message, v_row.task_id);
  v_place   tid;
begin
  select r.ctid into v_place from ready r
  where r.queue = v_row.queue and r.priority = v_row.priority and r.run_at = v_row.run_at and r.task_id = v_row.task_id
  for update skip locked;
  if not found then
    return;
  end if;
  begin
    delete from ready r where r.ctid = v_place;
    if task_state(v_row.task_id) is null then
      if p_stays then
        raise exception using errcode = 'EB999';
      end if;
      insert into ended (task_id, state, attempt, failures, crashes, ended_at, error_code, error)
      values (v_row.task_id, 'failed', v_row.attempt - 1, v_row.failures, v_row.crashes, now(), 'NOT_CLAIMABLE',
              json_build_object('code', 'NOT_CLAIMABLE', 'message', v_message));
      perform tell_waiters(array[v_row.task_id]);
    end if;
  exception when others then
    if sqlstate <> 'EB999' and not is_about_rows(sqlstate) then
      raise;
    end if;
    v_how := format('was put off for five minutes. %s', v_message)
      || case when sqlstate = 'EB999' then '' else format(' It could not be set aside either: %s (%s)', sqlerrm, sqlstate) end;
    -- With an input it would have to stay where it was put in (see waits_at). Of one task, only one row may be without. Not now(), which would
    -- be one place for all rows of the task.
    update ready r
    set run_at = clock_timestamp() + interval '5 minutes',
        input = case when exists (select from ready o where o.task_id = v_row.task_id and o.input is null and o.ctid <> v_place) then r.input end
    where r.ctid = v_place;
  end;
  perform raise_alert('not-claimable', v_row.name,
    format('Task %s (%s) of queue "%s" %s. There may be others of this name.', v_row.task_id, v_row.name, v_row.queue, v_how),
    json_build_object('task', v_row.task_id, 'queue', v_row.queue, 'reason', p_bad.reason));
  return query select v_row.task_id, v_row.name, v_row.queue, p_bad.reason;
end $$;

-- A queue from which nothing can be claimed. p_advice: what to do before it is resumed.
create function pause_for_trouble(p_queue text, p_reason text, p_advice text) returns void
language plpgsql set search_path from current
as $$
begin
  insert into queue (name, paused, trouble) values (p_queue, true, p_reason)
  on conflict (name) do update set paused = true, trouble = excluded.trouble, changed_at = now();
  perform raise_alert('queue-not-usable', p_queue,
    format('Queue "%s" was paused: %s. %s, then: everbeat queues resume %s.', p_queue, p_reason, p_advice, p_queue),
    json_build_object('reason', p_reason));
end $$;

-- Why this queue's settings cannot be used; null if they can.
create function queue_trouble(p_queue queue) returns text
language plpgsql set search_path from current
as $$
begin
  if p_queue.rate_limit is not null then
    perform take_rate('queue/' || p_queue.name, p_queue.rate_limit, p_queue.rate_per_ms, 1);
  end if;
  raise exception using errcode = 'EB999';
exception when others then
  if sqlstate <> 'EB999' and not is_about_rows(sqlstate) then
    raise;
  end if;
  return case when sqlstate <> 'EB999' then format('%s (%s)', sqlerrm, sqlstate) end;
end $$;

-- A queue in which this claim fails, and the rows there that it fails with, while no other row of the queue can be claimed.
create type failing_queue as (name text, bad bad_row[]);

-- After a claim has failed: the first thing that is found to make it fail is taken out of the way. Queues whose settings cannot be used are
-- paused. Returns the tasks that were set aside and, without a task, the queues that were paused, and those in which everything stays (`is_left`): nothing
-- can be claimed, neither from them nor from others. Returns nothing if the claim would go through now, or another worker is at this.
-- It has the arguments of claim_tasks, for the sake of whoever calls both.
create function set_aside_bad(
  p_replica uuid, p_names text[], p_queues text[], p_room integer[], p_run integer, p_prefetch integer,
  p_cursor_lane uuid[], p_cursor_run_at timestamptz[], p_cursor_task uuid[], p_arm boolean, p_reserve integer, p_seen timestamptz, p_last_lane uuid)
returns table (task_id uuid, name text, queue text, reason text, is_left boolean)
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set lock_timeout = '500ms'
as $$
#variable_conflict use_column
declare
  -- If more rows than these are refused at once, it is no matter of single tasks: none of them fails.
  c_few    constant integer := 5;
  -- Where so many queues fail alike, the rows of the others are not tried any more in this call.
  c_queues constant integer := 3;
  v_claim  asked_claim := row(p_replica, p_names, p_queues, p_room, p_run, p_prefetch, p_reserve,
                              p_cursor_lane, p_cursor_run_at, p_cursor_task, p_seen, coalesce(p_last_lane, gen_random_uuid()));
  v_queue  queue;
  v_queues text[];
  -- Always in the same order: where all of them fail, the alerts are about the same few each time.
  v_others text[] := array(select distinct l.queue from lane l where p_queues is null or l.queue = any (p_queues) order by l.queue);
  v_found  record;
  v_are_own boolean; -- some of them are refused by ourselves
  v_failing failing_queue[] := '{}';
  v_one    failing_queue;
  v_is_well boolean;
begin
  if not pg_try_advisory_xact_lock(gate_lock_id('service', 'set-aside')) then
    return;
  end if;
  is_left := false;
  -- A queue that somebody has locked is passed by, as a claim does.
  for v_queue in
    select * from queue q where not q.paused and q.rate_limit is not null and (p_queues is null or q.name = any (p_queues))
    order by q.name for update skip locked
  loop
    reason := queue_trouble(v_queue);
    continue when reason is null;
    queue := v_queue.name;
    perform pause_for_trouble(queue, 'its settings cannot be used: ' || reason, format('Set them anew (everbeat queues set %s)', queue));
    return next;
  end loop;
  if queue is not null then
    return;
  end if;
  loop
    v_queues := failing_queues(v_claim, v_others);
    exit when v_queues is null;
    queue := v_queues[cardinality(v_queues)];
    select * into v_found from first_bad_rows(queue, v_claim, '{}');
    if cardinality(v_found.bad) = 0 then
      select * into v_found from first_bad_rows(queue, v_claim, v_queues[: cardinality(v_queues) - 1]);
    end if;
    if cardinality(v_found.bad) = 0 then
      -- No row is at fault. By now it may be all right: others take and cancel tasks meanwhile.
      reason := claim_trouble(v_claim, v_queues);
      if reason is not null then
        perform pause_for_trouble(queue, 'every claim that came to it failed: ' || reason, 'Put that right');
        return next;
      end if;
      return;
    end if;
    v_are_own := exists (select from unnest(v_found.bad) b where b.code = 'EB005');
    if v_are_own or v_found.claimed > 0 then
      return query
        select a.*, false from unnest(v_found.bad) b,
          set_aside(row(b.place, b.reason, b.code)::bad_row, not v_are_own and cardinality(v_found.bad) > c_few) a
        where b.code = 'EB005' or not v_are_own;
      return;
    end if;
    v_failing := v_failing || row(queue, v_found.bad)::failing_queue;
    v_others := array_remove(v_others, queue);
    exit when cardinality(v_failing) = c_queues;
  end loop;
  v_is_well := cardinality(v_failing) > 0 and claim_takes_somewhere(v_claim, v_others);
  foreach v_one in array v_failing loop
    queue := v_one.name;
    reason := v_one.bad[1].reason;
    if v_is_well and cardinality(v_one.bad) <= c_few then
      return query select a.*, false from unnest(v_one.bad) b, set_aside(row(b.place, b.reason, b.code)::bad_row, false) a;
      continue;
    elsif v_is_well then
      perform pause_for_trouble(queue, 'every claim that came to it failed: ' || reason, 'Put that right');
    else
      is_left := true;
      perform raise_alert('claims-failing', queue,
        format('Every claim from queue "%s" fails: %s. No task is to blame, so all of them wait, and workers try again. Put that right; this ends by itself.', queue, reason),
        json_build_object('reason', reason));
    end if;
    return next;
  end loop;
end $$;

-- The alert about tasks of these names is over when somebody retries one of them: it is raised again if that one cannot be claimed either.
create function end_claim_alerts(p_tasks uuid[]) returns void
language sql set search_path from current
as $$
  update alert set resolved_at = now()
  where kind = 'not-claimable' and resolved_at is null and subject in (select name from task where id = any (p_tasks))
$$;

-- Enqueueing. Tasks come in groups, each with the terms that its tasks have in common. `p_terms` is an array of
--   { ids, name, queue, priority, runAt | delayMs, expiresAt | expiresInMs, exclusiveKey, exclusiveLimit,
--     rateKey, rateLimit, ratePerMs, uniqueKey, uniqueOver, uniqueForMs, onDuplicate, metadata }
-- and `p_inputs` of the inputs of each group, in the same order; checked by the caller: the TypeScript client, or
-- enqueue() below. Inputs are stored to the letter. They are apart from the terms because what is taken out of JSON
-- by its keys cannot have every escape that JSON allows, such as \u0000; metadata is JSON within text for the same reason.

-- Whether this row of `ready`, one with its input, is that of this task: by its place. Becomes a part of the statement that asks.
create function waits_at(p_row ready, p_task task) returns boolean
language sql immutable
as $$
  select p_row.queue = p_task.queue and p_row.priority = p_task.priority and p_row.run_at = p_task.run_at and p_row.task_id = p_task.id
    and p_row.input is not null
$$;

create function task_state(p_task uuid) returns text
language sql stable set search_path from current
as $$
  select coalesce(
    (select state from ended where task_id = p_task),
    (select state from running where task_id = p_task),
    (select 'pending' from ready where task_id = p_task and input is null),
    (select 'pending' from task t join ready r on waits_at(r, t) where t.id = p_task),
    (select 'pending' from parked where task_id = p_task))
$$;

-- When a task expires. Refuses one that may only start when it has: judged here, by the clock that will start and expire it.
create function expiry_of(p_name text, p_start timestamptz, p_expires_at timestamptz) returns timestamptz
language plpgsql immutable
as $$
begin
  if p_start >= p_expires_at then
    raise exception 'task % was not enqueued: it would expire before it may start', p_name
      using errcode = 'EB003', detail = json_build_array('it would expire before it may start: let it expire later, or start sooner');
  end if;
  return p_expires_at;
end $$;

-- The groups as rows. Without a search_path of its own, so that it becomes a part of the statement that asks it.
create function task_groups(p_terms json, p_inputs json)
returns table (ids uuid[], inputs json, name text, queue text, priority smallint, run_at timestamptz, expires_at timestamptz, unique_key text,
               exclusive_key text, exclusive_limit smallint, rate_key text, rate_limit integer, rate_per_ms bigint, metadata json)
language sql stable
as $$
  select g.ids, g.inputs, g.name, g.queue, g.priority,
    coalesce(g."runAt", now() + make_interval(secs => coalesce(g."delayMs", 0) / 1000.0)),
    case when g."expiresAt" is not null or g."expiresInMs" is not null then
      expiry_of(g.name, coalesce(g."runAt", now() + make_interval(secs => nullif(g."delayMs", 0) / 1000.0)),
        coalesce(g."expiresAt", now() + make_interval(secs => g."expiresInMs" / 1000.0))) end,
    g."uniqueKey", g."exclusiveKey", g."exclusiveLimit", g."rateKey", g."rateLimit", g."ratePerMs", g.metadata::json
  from rows from (
    json_to_recordset(p_terms) as (
      ids uuid[], name text, queue text, priority smallint, "runAt" timestamptz, "delayMs" bigint, "expiresAt" timestamptz,
      "expiresInMs" bigint, "uniqueKey" text, "exclusiveKey" text, "exclusiveLimit" smallint, "rateKey" text,
      "rateLimit" integer, "ratePerMs" bigint, metadata text),
    json_array_elements(p_inputs)
  ) as g (ids, name, queue, priority, "runAt", "delayMs", "expiresAt", "expiresInMs", "uniqueKey", "exclusiveKey", "exclusiveLimit",
          "rateKey", "rateLimit", "ratePerMs", metadata, inputs)
$$;

-- Whether this transaction keeps the snapshot that it began with. Becomes a part of the statement that asks.
create function sees_the_past() returns boolean
language sql stable
as $$ select current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') $$;

-- For a transaction that keeps an old snapshot: whether a lane that it sees is still there, and will be when it commits. The lane's row is
-- locked for that. Where the row was deleted since the snapshot, the lock fails (40001). A row that is leaving since then can be locked, and
-- then does not go (see retire_lanes). A row that is being deleted counts as gone. Such a row is waited for in one case, whatever is said
-- about locks that are to be skipped: where the snapshot has an earlier version of it. Hence the short patience.
create function keep_lane(p_queue text, p_priority smallint) returns boolean
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set lock_timeout = '50ms'
as $$
declare
  c_most constant integer := 8; -- of an old snapshot, all but a few may be gone
  v_lane uuid;
begin
  for v_lane in select id from lane where queue = p_queue and priority = p_priority and not is_leaving limit c_most loop
    begin
      perform from lane where id = v_lane for key share skip locked;
      if found then
        return true;
      end if;
    exception when serialization_failure or lock_not_available then
      null; -- it is gone, or about to go
    end;
  end loop;
  return false;
end $$;

-- Whoever puts rows into `ready` calls this afterwards, in a statement of its own. A lane that is leaving does not count: it may be
-- gone by the time of the commit (see retire_lanes, which waits for every transaction that may have seen the lane as staying;
-- that is why the caller must have its transaction id before this look, and it has one, by its own writes). Where the transaction
-- keeps an old snapshot, nothing that it sees is certain to be there still, so it has to keep its lane.
create function add_lanes(p_queues text[], p_priorities smallint[]) returns void
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  insert into lane (queue, priority)
  select u.queue, u.priority from (select distinct * from unnest(p_queues, p_priorities)) as u (queue, priority)
  where case when sees_the_past() then not keep_lane(u.queue, u.priority)
    -- Not as `exists`, which might be planned as a hash of all lanes.
    else (select true from lane l where l.queue = u.queue and l.priority = u.priority and not l.is_leaving limit 1) is null end;
end $$;

-- p_fresh: no id was ever used before. Else the same id again is the same task again: a call that was repeated because
-- its reply was lost, or one whose caller chose the ids. That costs a search for each, and an insert in two steps.
-- p_alone: this statement is a transaction of its own. p_id: the id that the (only) task gets instead of its own.
-- p_long: the inputs of the (only) group, where they are so long that taking them out of other JSON would cost time. The list may end with
-- nulls. It cannot be given together with p_fresh. p_patience_ms: somebody else's transaction, which has put in the same id, is not waited for
-- any longer.
create function insert_tasks(
  p_terms json, p_inputs json, p_fresh boolean, p_alone boolean, p_id uuid default null, p_long json[] default null,
  p_patience_ms integer default null) returns void
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  -- Due soon counts as due: an idle worker that is told looks when the next task is due, and is there in time.
  c_soon constant timestamptz := now() + interval '10 seconds';
  v_queues     text[];
  v_priorities smallint[];
  v_due        text[];
begin
  if p_patience_ms is not null then
    perform set_config('lock_timeout', p_patience_ms::text, true);
  end if;
  if p_fresh then
    with groups as materialized (
      select * from task_groups(p_terms, p_inputs)
    ),
    -- The last of these is carried out first. So the first id is where two meet who bring the same ones; were it the other
    -- way round here and below, each could wait for the other, until the server puts an end to it.
    waiting as (
      insert into ready (task_id, queue, priority, run_at, name, gated, expires_at, input)
      select id, queue, priority, run_at, name, gated, expires_at, case when has_input and octet_length(input::text) <= 256 then input end
      from (
        select unnest(ids) as id, json_array_elements(inputs) as input, queue, priority, run_at, name, gated, expires_at,
               not gated and run_at = now() and metadata is null as has_input
        from (select *, exclusive_key is not null or rate_key is not null as gated from groups) g) g
    ), put as (
      insert into task (id, name, queue, priority, run_at, expires_at, unique_key, exclusive_key, exclusive_limit,
                        rate_key, rate_limit, rate_per_ms, input, metadata)
      select unnest(ids), name, queue, priority, run_at, expires_at, unique_key, exclusive_key, exclusive_limit,
             rate_key, rate_limit, rate_per_ms, json_array_elements(inputs), metadata
      from groups
    )
    select array_agg(queue), array_agg(priority), array_agg(queue) filter (where run_at <= c_soon)
    into v_queues, v_priorities, v_due from groups g;
  else
    with put as (
      insert into task (id, name, queue, priority, run_at, expires_at, unique_key, exclusive_key, exclusive_limit,
                        rate_key, rate_limit, rate_per_ms, input, metadata)
      select coalesce(p_id, x.id), name, queue, priority, run_at, expires_at, unique_key, exclusive_key, exclusive_limit,
             rate_key, rate_limit, rate_per_ms, x.input, metadata
      from task_groups(p_terms, p_inputs) g,
           rows from (unnest(g.ids), unnest(coalesce(p_long[:cardinality(g.ids)], array(select json_array_elements(g.inputs))))) as x (id, input)
      on conflict (id) do nothing
      returning id, queue, priority, run_at, name, expires_at, exclusive_key, rate_key
    ), waiting as (
      insert into ready (task_id, queue, priority, run_at, name, gated, expires_at)
      select id, queue, priority, run_at, name, exclusive_key is not null or rate_key is not null, expires_at from put
    ), used as materialized (
      select queue, priority, bool_or(run_at <= c_soon) as is_due from put group by queue, priority
    )
    select array_agg(queue), array_agg(priority), array_agg(queue) filter (where is_due)
    into v_queues, v_priorities, v_due from used u;
    -- All were there, and may be so for too short a time to be durable (insert_task_promptly). The caller is about to be told that they
    -- are: locking one writes to the log, and makes the commit wait for it and for all that was written before.
    if v_queues is null then
      perform from task where id = (select coalesce(p_id, ids[1]) from task_groups(p_terms, p_inputs) limit 1) for key share;
    end if;
  end if;

  if v_queues is not null then
    perform add_lanes(v_queues, v_priorities);
  end if;
  if v_due is null then
    return;
  elsif p_alone then
    perform ring(v_due);
  else
    perform announce(v_due);
  end if;
end $$;

-- What insert_tasks does, for one task with a fresh id, due at once and with no other terms, in a transaction of its own: in fewer steps.
-- Returns whether a worker is told.
create function insert_task(p_id uuid, p_name text, p_queue text, p_priority smallint, p_input json) returns boolean
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
begin
  insert into task (id, name, queue, priority, run_at, input) values (p_id, p_name, p_queue, p_priority, now(), p_input);
  insert into ready (task_id, queue, priority, run_at, name, gated, input)
  values (p_id, p_queue, p_priority, now(), p_name, false, case when octet_length(p_input::text) <= 256 then p_input end);
  -- The same look as in add_lanes, without the call.
  if sees_the_past() or not exists (select from lane where queue = p_queue and priority = p_priority and not is_leaving) then
    perform add_lanes(array[p_queue], array[p_priority]);
  end if;
  return ring(array[p_queue]);
end $$;

-- The same in a hurry: where a worker sleeps, the task that it is woken for can be seen before it is durable, and the caller is told
-- when it is. So the worker's way to its claim and the caller's wait for the disk take place at the same time.
-- The log is written in order: the commit of the claim waits for everything before it, so that no handler starts for a task that
-- could be lost; and so does the second commit here, because locking a row writes to the log.
--
-- Where commits do not wait anyway, by the settings of the server's owner, there is nothing to hurry. Made by its text, because a
-- procedure with a search_path of its own cannot commit.
do $do$
begin
  execute format($format$
    create procedure insert_task_promptly(p_id uuid, p_name text, p_queue text, p_priority smallint, p_input json)
    language plpgsql
    as $$
    begin
      if %1$I.insert_task(p_id, p_name, p_queue, p_priority, p_input) and pg_catalog.current_setting('synchronous_commit') <> 'off' then
        perform pg_catalog.set_config('synchronous_commit', 'off', true);
        commit;
        perform from %1$I.task where id = p_id for key share;
      end if;
    end $$
  $format$, current_schema());
end $do$;

-- What becomes of a task whose unique key is taken by one that counts:
--   keep     the old one stays, the new one is not enqueued
--   replace  the old one, if it is still pending, gets the new one's input and time; else the new one is enqueued too
--   refuse   the new one is not enqueued, and the caller is told
-- Each task is a group of its own. Returns a row for each that was not simply enqueued. p_patience_ms: a transaction that holds one of
-- the keys is not waited for any longer.
create function enqueue_keyed(p_terms json, p_inputs json, p_refuse_all boolean, p_alone boolean, p_patience_ms integer default null)
returns table (ordinal integer, task_id uuid, outcome text)
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
as $$
declare
  v_task   record;
  v_hold   unique_hold;
  v_until  timestamptz;
  v_since  timestamptz;
  v_state  text;
  v_ids    uuid[] := '{}';
  v_terms  json[] := '{}';
  v_inputs json[] := '{}';
begin
  if p_patience_ms is not null then
    perform set_config('lock_timeout', p_patience_ms::text, true);
  end if;
  for v_task in
    select e.terms, e.inputs, e.ordinality::integer as place, x.ids[1] as id, x.*
    from rows from (json_array_elements(p_terms), json_array_elements(p_inputs)) with ordinality as e (terms, inputs, ordinality)
    cross join lateral json_to_record(e.terms) as x (
      ids uuid[], name text, "uniqueKey" text, "uniqueOver" text[], "uniqueForMs" bigint, "onDuplicate" text)
    -- In the order of the keys, so that two callers with the same keys wait for each other and never both ways.
    order by x.name, x."uniqueKey" nulls first, e.ordinality
  loop
    outcome := null;
    if v_task."uniqueKey" is not null and not exists (select from task where id = v_task.id) then
      v_until := now() + make_interval(secs => v_task."uniqueForMs" / 1000.0);
      -- Either the key is free and ours, or it is taken and locked. Again where it was purged in between.
      loop
        insert into unique_hold (name, key, task_id, counts_until) values (v_task.name, v_task."uniqueKey", v_task.id, v_until)
        on conflict do nothing;
        v_hold := null;
        exit when found;
        select h.* into v_hold from unique_hold h where h.name = v_task.name and h.key = v_task."uniqueKey" for update;
        exit when found;
      end loop;
      if v_hold.task_id is not null then
        -- A task that was purged is known by its key, for as long as that was asked for.
        v_state := coalesce(task_state(v_hold.task_id), case when v_hold.task_id = any (v_ids) then 'pending' end,
                            case when v_hold.counts_until > now() then v_hold.ended_as end);
        v_since := coalesce((select t.created_at from task t where t.id = v_hold.task_id), v_hold.created_at, now());
        v_until := v_since + make_interval(secs => v_task."uniqueForMs" / 1000.0);
        outcome := case
          when v_state is null or v_state <> all (coalesce(v_task."uniqueOver", '{pending,claimed,running}')) or v_until <= now() then null
          when v_task."onDuplicate" = 'replace' then
            case when v_state = 'pending' and replace_pending(v_hold.task_id, v_task.terms, v_task.inputs, p_alone) then 'replaced' end
          when v_task."onDuplicate" = 'refuse' then 'refused'
          else 'kept'
        end;
        if outcome is null then
          update unique_hold h
          set task_id = v_task.id, counts_until = now() + make_interval(secs => v_task."uniqueForMs" / 1000.0), created_at = null, ended_as = null
          where h.name = v_task.name and h.key = v_task."uniqueKey";
        elsif outcome = 'refused' and p_refuse_all then
          raise exception 'unique key % of task % is taken by %', v_task."uniqueKey", v_task.name, v_hold.task_id
            using errcode = 'EB002', detail = json_build_object('uniqueKey', v_task."uniqueKey", 'name', v_task.name, 'holder', v_hold.task_id);
        elsif v_until > coalesce(v_hold.counts_until, '-infinity') then
          update unique_hold h set counts_until = v_until where h.name = v_task.name and h.key = v_task."uniqueKey";
        end if;
      end if;
    end if;
    if outcome is null then
      v_ids := v_ids || v_task.id; v_terms := v_terms || v_task.terms; v_inputs := v_inputs || v_task.inputs;
    else
      ordinal := v_task.place; task_id := v_hold.task_id;
      return next;
    end if;
  end loop;
  perform insert_tasks(array_to_json(v_terms), array_to_json(v_inputs), false, p_alone);
end $$;

-- Gives a pending task another input and time. False: it was claimed in the meantime.
create function replace_pending(p_task uuid, p_terms json, p_inputs json, p_alone boolean) returns boolean
language plpgsql set search_path from current
as $$
declare
  v_task task;
begin
  delete from ready where task_id = p_task and input is null;
  if not found then
    delete from ready r using task t where t.id = p_task and waits_at(r, t);
  end if;
  if not found then
    delete from parked where task_id = p_task;
  end if;
  if not found then
    return false;
  end if;
  delete from task where id = p_task returning * into v_task;
  perform insert_tasks(json_build_array(p_terms), json_build_array(p_inputs), false, p_alone, p_task);
  update task set created_at = v_task.created_at where id = p_task;
  return true;
end $$;

-- A time-ordered id (UUID version 7), for callers that bring none.
create function new_task_id() returns uuid
language sql volatile
as $$
  select encode(set_bit(set_bit(
    overlay(uuid_send(gen_random_uuid()) placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
    52, 1), 53, 1), 'hex')::uuid
$$;

-- A duration as the clients write it (src/config/duration.ts), in whole milliseconds: a number of them, or text such as '30s', '5m',
-- '2h'. Null if it is none. Its patterns name spaces and digits one by one: what \s and \d take depends on the locale, and a cast takes less.
create function duration_ms(p_value jsonb) returns bigint
language sql immutable
as $$
  select case when ms between 0 and 315360000000 then round(ms)::bigint end
  from (select case jsonb_typeof(p_value)
    when 'number' then (p_value #>> '{}')::numeric
    when 'string' then (
      select m[1]::numeric * case m[2] when 'ms' then 1 when 's' then 1000 when 'm' then 60000 when 'h' then 3600000 else 86400000 end
      from regexp_match(p_value #>> '{}', '^[ \t\r\n]*([0-9]{1,255}(?:\.[0-9]{1,255})?)[ \t\r\n]*(ms|s|m|h|d)[ \t\r\n]*$') m)
  end) d (ms)
$$;

-- A moment as the clients write it: ISO 8601 with its zone, or a day, which begins in UTC, and of the years that they can write. Null if
-- it is none.
create function instant(p_value jsonb) returns timestamptz
language plpgsql immutable
as $$
declare
  c_iso constant text := replace('^[1-9]D{3}-DD-DD(T([01]D|2[0-3]):[0-5]D(:[0-5]D(\.D{1,9})?)?(Z|[+-](0D|1[0-4]):[0-5]D))?$', 'D', '[0-9]');
  v_text text := p_value #>> '{}';
  v_at   timestamptz;
begin
  if jsonb_typeof(p_value) <> 'string' or v_text !~ c_iso then
    return null;
  end if;
  v_at := case when char_length(v_text) = 10 then v_text || 'T00:00:00Z' else v_text end;
  return case when v_at >= '1000-01-01T00:00:00Z' and v_at < '10000-01-01T00:00:00Z' then v_at end;
exception when datetime_field_overflow then
  return null;
end $$;

-- Whether JSON is nested more deeply than the clients allow (src/task/json.ts): what is deeper, they could read and not write again.
create function is_too_deep(p_json text) returns boolean
language plpgsql immutable
as $$
declare
  c_most constant integer := 1000;
  v_left text;
begin
  -- Most have fewer brackets than that.
  if char_length(p_json) - char_length(translate(p_json, '[{', '')) <= c_most then
    return false;
  end if;
  -- The brackets alone, without those within text. Each step takes the innermost level away.
  v_left := translate(regexp_replace(p_json, '"(?:[^"\\]|\\.)*"|[^][{}"]', '', 'g'), '{}', '[]');
  for i in 1 .. c_most loop
    exit when v_left = '';
    v_left := replace(v_left, '[]', '');
  end loop;
  return v_left <> '';
end $$;

-- What is wrong with the value of an option, in the words of the clients; null if nothing is.
create function option_problem(p_value jsonb, p_kind text, p_min numeric default null, p_max numeric default null) returns text
language plpgsql immutable set search_path from current
as $$
declare
  v_type text := jsonb_typeof(p_value);
  v_text text := p_value #>> '{}';
  v_must text;
begin
  v_must := case p_kind
    when 'uuid' then case when v_type <> 'string' or v_text !~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
      then 'a UUID' end
    when 'name' then case when v_type <> 'string' or v_text !~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$'
      then '1 to 128 ASCII letters, digits or . _ : / -, starting with a letter or a digit' end
    when 'key' then case when v_type <> 'string' or char_length(v_text) not between 1 and 512
      then 'text of 1 to 512 characters' end
    when 'instant' then case when instant(p_value) is null
      then 'an ISO 8601 time such as "2030-01-31T09:00:00Z", from the year 1000 to 9999' end
    when 'duration' then case when coalesce(duration_ms(p_value) not between p_min and p_max, true)
      then format('a duration from %s to %s ms, such as 1500 or "30s"', p_min, p_max) end
    when 'what to do' then case when v_type <> 'string' or v_text not in ('keep', 'replace', 'refuse')
      then '"keep" or "replace" or "refuse"' end
    when 'states' then case when v_type <> 'array' or p_value = '[]'
        or not p_value <@ '["pending", "claimed", "running", "completed", "failed", "cancelled", "expired"]'
      then 'a list of task states' end
    when 'rate' then case when v_type <> 'object' or not p_value ?& array['key', 'limit', 'per'] or p_value - array['key', 'limit', 'per'] <> '{}'
      then 'an object with key, limit and per' end
  end;
  -- In a branch of its own: what is not a number cannot be compared with one.
  if p_kind = 'number' and v_type = 'number' and v_text::numeric between p_min and p_max and v_text::numeric = trunc(v_text::numeric) then
    return null;
  elsif p_kind = 'number' then
    v_must := format('a whole number from %s to %s', p_min, p_max);
  end if;
  return case when v_must is not null then format('must be %s, not %s', v_must, left(p_value::text, 60)) end;
end $$;

-- Everything that is wrong with the options of a task, by the rules of the clients (src/queue/enqueue-options.ts).
create function enqueue_problems(p_options jsonb) returns text[]
language sql immutable set search_path from current
as $$
  with known (key, kind, least, most) as (
    values ('id', 'uuid', null::numeric, null::numeric), ('queue', 'name', null, null), ('priority', 'number', -100, 100),
      ('delay', 'duration', 0, 315360000000), ('runAt', 'instant', null, null), ('expiresAt', 'instant', null, null),
      ('expiresIn', 'duration', 0, 315360000000), ('uniqueKey', 'key', null, null), ('onDuplicate', 'what to do', null, null),
      ('uniqueOver', 'states', null, null), ('uniqueFor', 'duration', 0, 315360000000), ('debounce', 'duration', 0, 315360000000),
      ('exclusiveKey', 'key', null, null), ('exclusiveLimit', 'number', 1, 10000), ('rateLimit', 'rate', null, null),
      ('metadata', 'anything', null, null)
  ), parts (path, kind, least, most, value) as (
    select key, kind, least, most, p_options -> key from known where p_options ? key
    union all
    select 'rateLimit.' || part, kind, least, most, p_options -> 'rateLimit' -> part
    from (values ('key', 'key', null::numeric, null::numeric), ('limit', 'number', 1, 1000000), ('per', 'duration', 1, 31536000000)) r (part, kind, least, most)
    where jsonb_typeof(p_options -> 'rateLimit') = 'object' and p_options -> 'rateLimit' ? part
  ), problems (problem) as (
    select format('unknown option %L: use one of %s', k, (select string_agg(key, ', ') from known))
    from jsonb_object_keys(p_options) k where k not in (select key from known)
    union all
    select format('%s: %s', path, option_problem(value, kind, least, most)) from parts where option_problem(value, kind, least, most) is not null
    union all
    select format('rateLimit: cannot be counted: at most %s starts in %s ms (one per microsecond)', per * 1000, per)
    from (select case when option_problem(p_options #> '{rateLimit,limit}', 'number', 1, 1000000) is null
                      then (p_options #>> '{rateLimit,limit}')::numeric end, duration_ms(p_options #> '{rateLimit,per}')) r (starts, per)
    where starts > per * 1000 and per > 0
    union all
    select format('%s and %s exclude each other; give one of them', a, b)
    from (values ('delay', 'runAt'), ('delay', 'debounce'), ('runAt', 'debounce'), ('expiresAt', 'expiresIn')) c (a, b)
    where p_options ?& array[a, b]
    union all
    select format('%s: needs %s', option, other)
    from (values ('onDuplicate', 'uniqueKey'), ('uniqueOver', 'uniqueKey'), ('uniqueFor', 'uniqueKey'), ('debounce', 'uniqueKey'),
      ('exclusiveLimit', 'exclusiveKey')) n (option, other)
    where p_options ? option and not p_options ? other
    union all
    select 'onDuplicate: must be "replace" with debounce, or left out'
    where p_options ?& array['debounce', 'onDuplicate'] and p_options ->> 'onDuplicate' in ('keep', 'refuse')
    union all
    select format('metadata: has %s bytes; at most 1048576 are allowed', octet_length((p_options -> 'metadata')::text))
    where octet_length((p_options -> 'metadata')::text) > 1048576
    union all
    select 'metadata: it is nested more than 1,000 levels deep' where is_too_deep((p_options -> 'metadata')::text)
  )
  select coalesce(array_agg(problem), '{}') from problems
$$;

-- For triggers and other languages: select enqueue('resize', '{"url": "…"}', '{"delay": "5m", "uniqueKey": "a"}').
-- Returns the task's id; with onDuplicate keep, that of the task that was there already.
create function enqueue(p_name text, p_input json default '{}', p_options jsonb default '{}') returns uuid
language plpgsql set search_path from current
as $$
declare
  v_problems text[];
  v_definition definition;
  v_id       uuid;
  v_terms    json;
  v_inputs   json := json_build_array(json_build_array(coalesce(p_input, 'null')));
  v_holder   uuid;
  v_size     integer := coalesce(octet_length(p_input::text), 0);
begin
  p_options := coalesce(p_options, '{}');
  if jsonb_typeof(p_options) = 'object' then
    v_problems := enqueue_problems(p_options);
  else
    v_problems := array[format('options: must be an object, not %s', left(p_options::text, 60))];
  end if;
  v_problems := v_problems || array(
    select format('name: %s', x) from option_problem(coalesce(to_jsonb(p_name), 'null'), 'name') x where x is not null
    union all
    select format('input: has %s bytes; at most 1048576 are allowed; store it elsewhere and pass a reference', v_size) where v_size > 1048576
    union all
    select 'input: it is nested more than 1,000 levels deep' where is_too_deep(p_input::text));
  if cardinality(v_problems) > 0 then
    raise exception 'task % was not enqueued: %', p_name, array_to_string(v_problems, '; ')
      using errcode = 'EB003', detail = to_json(v_problems);
  end if;

  select * into v_definition from definition where name = p_name;
  v_id := coalesce((p_options ->> 'id')::uuid, new_task_id());
  v_terms := json_build_array(json_build_object(
    'ids', array[v_id], 'name', p_name,
    'queue', coalesce(p_options ->> 'queue', v_definition.queue, 'default'),
    'priority', coalesce((p_options ->> 'priority')::numeric::smallint, v_definition.priority, 0),
    'runAt', instant(p_options -> 'runAt'),
    'delayMs', coalesce(duration_ms(p_options -> 'debounce'), duration_ms(p_options -> 'delay')),
    'expiresAt', instant(p_options -> 'expiresAt'),
    'expiresInMs', duration_ms(p_options -> 'expiresIn'),
    'uniqueKey', p_options -> 'uniqueKey',
    'uniqueOver', p_options -> 'uniqueOver',
    'uniqueForMs', duration_ms(p_options -> 'uniqueFor'),
    'onDuplicate', coalesce(p_options ->> 'onDuplicate', case when p_options ? 'debounce' then 'replace' end),
    'exclusiveKey', p_options -> 'exclusiveKey',
    'exclusiveLimit', case when p_options ? 'exclusiveKey' then coalesce((p_options ->> 'exclusiveLimit')::numeric::smallint, 1) end,
    'rateKey', p_options #> '{rateLimit,key}',
    'rateLimit', (p_options #>> '{rateLimit,limit}')::numeric::integer,
    'ratePerMs', duration_ms(p_options #> '{rateLimit,per}'),
    'metadata', (p_options -> 'metadata')::text));
  if not p_options ? 'uniqueKey' then
    perform insert_tasks(v_terms, v_inputs, not p_options ? 'id', false);
    return v_id;
  end if;
  select e.task_id into v_holder from enqueue_keyed(v_terms, v_inputs, true, false) e;
  return coalesce(v_holder, v_id);
end $$;

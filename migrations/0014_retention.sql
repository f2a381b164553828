-- What leaves the record of ended tasks, and how it is found.
--
-- `ended` is appended to, and the space that a purge has freed is used again. So tasks that ended at about the same time lie together, and the
-- oldest are found by the pages in which they lie. This table has one row for each span of 32 pages, with a time before which nothing in the span
-- ended. An index of ended_at would find them too, and would be written with every task that ends: a twelfth of the WAL of a claim
-- and its end. A BRIN index would not be, but it never forgets the old times of pages that are used again, and in the end it leads to the whole table.
-- (test/database/oldest-ended.test.ts)
create table ended_span (
  span   bigint primary key,    -- pages 32 * span to 32 * span + 31
  oldest timestamptz not null   -- nothing that lies there ended before
);
create index ended_span_oldest on ended_span (oldest);

create function first_row_of(p_span bigint) returns tid
language sql immutable
as $$ select format('(%s,0)', 32 * p_span)::tid $$;

-- When the first of the tasks in this span ended; now, if there is none.
create function oldest_in(p_span bigint) returns timestamptz
language sql stable set search_path from current set enable_seqscan = off set jit = off
as $$
  select coalesce(min(ended_at), now()) from ended where ctid >= first_row_of(p_span) and ctid < first_row_of(p_span + 1)
$$;

-- Adds spans for the pages that are new since the last time: what lies there ended after that. (A task that was completed in a user's transaction
-- ended when that transaction began. At the most, it leaves later by the length of that transaction.) In a table that was written anew as a whole (vacuum full, a restored
-- dump) everything lies elsewhere: then it is read once.
create function survey_ended() returns void
language plpgsql set search_path from current
as $$
declare
  v_file  oid := pg_relation_filenode('ended');
  v_last  bigint := (pg_relation_size('ended') / current_setting('block_size')::bigint - 1) / 32;
  v_since timestamptz := (select case when surveyed_file = v_file then surveyed_at else '-infinity' end from upkeep);
begin
  delete from ended_span where span > v_last;
  if v_since = '-infinity' then
    delete from ended_span;
  end if;
  insert into ended_span (span, oldest)
  select s, v_since from generate_series((select coalesce(max(span), -1) + 1 from ended_span), v_last) s;
  update ended_span set oldest = oldest_in(span) where oldest = '-infinity';
  update upkeep set surveyed_at = now(), surveyed_file = v_file;
end $$;

-- Everbeat never changes when a task ended. If somebody else does, it is no longer known where the oldest lie.
create function forget_spans() returns trigger
language plpgsql set search_path from current
as $$
begin
  update ended_span set oldest = '-infinity' where oldest > '-infinity';
  return null;
end $$;
create trigger ended_moved after update of ended_at on ended for each statement execute function forget_spans();

-- Ended tasks that cannot be deleted, because a foreign key or a trigger of a user's own refuses it. Each is left alone for a while, the longer the more
-- often it was refused, so that such tasks do not fill the batches. See src/worker/refused-purges.ts.
create table not_purged (
  task_id     uuid primary key,
  times       integer not null,
  rests_until timestamptz not null,
  told_as     text not null -- the subject of its alert
);

-- The alert ends when the task could be deleted, or is no ended task any more. That may neither fail nor wait on account of an alert: the next sweep
-- resolves what is left (see resolveOtherStallAlerts).
create function end_alerts_of_purged() returns trigger
language plpgsql set search_path from current
as $$
begin
  update alert set resolved_at = now() where id = any (array(
    select a.id from alert a join gone g on g.told_as = a.subject where a.kind = 'upkeep-passed-by' and a.resolved_at is null
    for update of a skip locked));
  return null;
exception when others then
  return null;
end $$;
create trigger not_purged_gone after delete on not_purged referencing old table as gone for each statement execute function end_alerts_of_purged();

-- Leaves a task alone that was refused. Returns how often it was.
create function rest_from_purge(p_task uuid, p_told_as text) returns integer
language sql set search_path from current set lock_timeout = '500ms'
as $$
  insert into not_purged (task_id, times, rests_until, told_as) values (p_task, 1, now() + interval '1 minute', p_told_as)
  on conflict (task_id) do update
  set times = least(not_purged.times + 1, 1000), told_as = p_told_as,
      rests_until = now() + least(2 ^ least(not_purged.times, 10), 60) * interval '1 minute'
  returning times
$$;

-- Locks these tasks, and returns those of them that nobody else has locked, in the same order. Somebody may be about to retry a task, to enqueue
-- its id again, or to decide over its unique key: such a task stays until the next time. One that has no task on record is nobody's. A task that
-- was refused a while ago is left out.
create function lock_ended(p_tasks uuid[]) returns uuid[]
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
declare
  v_ended uuid[] := array(
    select e.task_id from ended e
    where e.task_id = any (p_tasks) and not exists (
      -- Not until a time far ahead, should the server's clock have been set back.
      select from not_purged n where n.task_id = e.task_id and n.rests_until between now() and now() + interval '1 hour')
    for update of e skip locked);
  v_asked uuid[] := array(select id from task where id = any (v_ended) for update skip locked);
  v_held  uuid[] := array(select task_id from unique_hold where task_id = any (v_ended) for update skip locked);
begin
  return array(
    select t.id from unnest(p_tasks) with ordinality t (id, place)
    where t.id = any (v_ended)
      and (t.id = any (v_asked) or not exists (select from task where id = t.id))
      and (t.id = any (v_held) or not exists (select from unique_hold where task_id = t.id))
    order by t.place);
end $$;

-- Of the tasks that ended before p_before the oldest that nobody else has locked and that were not refused, and the spans that were looked at for them. So fewer than
-- p_limit means that there are no more, however many are locked or were refused.
create function oldest_ended(p_before timestamptz, p_limit integer, out tasks uuid[], out spans bigint[])
language plpgsql set search_path from current set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
declare
  v_span  record;
  v_here  record;
  v_found uuid[] := '{}'; -- not tried yet: something older may lie elsewhere
  v_times timestamptz[] := '{}';
  v_next  uuid[];
begin
  tasks := '{}';
  spans := '{}';
  <<by_span>>
  for v_span in
    select span, lead(oldest, 1, 'infinity') over (order by oldest) as next from ended_span where oldest < p_before order by oldest
  loop
    select array_agg(task_id) as tasks, array_agg(ended_at) as times into v_here
    from ended where ctid >= first_row_of(v_span.span) and ctid < first_row_of(v_span.span + 1) and ended_at < p_before;
    v_found := v_found || v_here.tasks;
    v_times := v_times || v_here.times;
    spans := spans || v_span.span;
    -- What lies elsewhere ended after these.
    v_next := array(select f.id from unnest(v_found, v_times) f (id, ended_at) where f.ended_at < v_span.next order by f.ended_at, f.id);
    for v_from in 1 .. cardinality(v_next) by p_limit loop
      tasks := tasks || lock_ended(v_next[v_from : v_from + p_limit - 1]);
      exit by_span when cardinality(tasks) >= p_limit;
    end loop;
    select coalesce(array_agg(f.id), '{}') as tasks, coalesce(array_agg(f.ended_at), '{}') as times into v_here
    from unnest(v_found, v_times) f (id, ended_at) where f.ended_at >= v_span.next;
    v_found := v_here.tasks;
    v_times := v_here.times;
  end loop;
  tasks := tasks[: p_limit];
end $$;

-- Unique keys of tasks that are nowhere on record, because somebody has deleted them by hand: such a key holds up nobody, and nothing else removes it.
-- There may be very many keys, so each call looks at a part of the table, which is drawn.
create function purge_lost_holds(p_batch integer) returns integer
language plpgsql set search_path from current set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
declare
  c_pages constant bigint := 1024;
  v_pages bigint := pg_relation_size('unique_hold') / current_setting('block_size')::bigint;
  v_from  bigint := c_pages * floor(random() * ceil(v_pages / c_pages::numeric));
  v_gone  integer;
begin
  delete from unique_hold where ctid = any (array(
    select h.ctid from unique_hold h
    where h.ctid >= format('(%s,0)', v_from)::tid and h.ctid < format('(%s,0)', v_from + c_pages)::tid
      -- In this order: nearly every task is there, and looking for it elsewhere takes longer.
      and h.ended_as is null and case when exists (select from task t where t.id = h.task_id) then false else task_state(h.task_id) is null end
    limit p_batch for update skip locked));
  get diagnostics v_gone = row_count;
  return v_gone;
end $$;

-- Which tasks leave now, locked, and the spans in which they lie: those that are older than p_max_age_ms, or more than p_max_count. Null: no such limit.
create function ended_to_purge(p_max_age_ms bigint, p_max_count bigint, p_batch integer, out tasks uuid[], out spans bigint[])
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
declare
  v_excess bigint;
begin
  perform survey_ended();
  select o.tasks, o.spans into tasks, spans from oldest_ended(now() - make_interval(secs => p_max_age_ms / 1000.0), p_batch) o;
  if p_max_count is not null then
    select least(count(*) - p_max_count, p_batch) into v_excess from ended;
    if v_excess > cardinality(tasks) then
      select o.tasks, o.spans into tasks, spans from oldest_ended('infinity', v_excess::integer) o;
    end if;
  end if;
end $$;

-- Deletes ended tasks that are locked, with all that is on record of them. They take their unique keys along, unless a key was asked for longer: then it
-- goes on without its task, and leaves when its time is over.
create function delete_ended(p_tasks uuid[]) returns void
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
begin
  delete from unique_hold where task_id = any (p_tasks) and (counts_until > now()) is not true;
  -- Where only the end of the task is on record, nobody knows any more when it was enqueued: at the latest when it ended.
  update unique_hold h set created_at = coalesce(t.created_at, e.ended_at), ended_as = e.state
  from ended e left join task t on t.id = e.task_id where e.task_id = any (p_tasks) and h.task_id = e.task_id;
  delete from review where task_id = any (p_tasks);
  delete from suspicion where task_id = any (p_tasks);
  delete from late where task_id = any (p_tasks);
  delete from progress where task_id = any (p_tasks);
  delete from attempt where task_id = any (p_tasks);
  delete from not_purged where task_id = any (p_tasks);
  delete from ended where task_id = any (p_tasks);
  delete from task where id = any (p_tasks);
  -- A trigger can also keep a row without raising an error. Such tasks would be found again and again.
  if exists (select from ended where task_id = any (p_tasks)) or exists (select from task where id = any (p_tasks)) then
    raise exception 'a trigger keeps a row of an ended task from being deleted' using errcode = 'triggered_data_change_violation';
  end if;
end $$;

-- Removes a batch of the tasks that leave now. Returns how many left: a full batch where there may be more.
create function purge_ended(p_max_age_ms bigint, p_max_count bigint, p_batch integer) returns integer
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
declare
  v_gone  uuid[];
  v_spans bigint[];
begin
  select tasks, spans into v_gone, v_spans from ended_to_purge(p_max_age_ms, p_max_count, p_batch);
  perform delete_ended(v_gone);
  update ended_span set oldest = oldest_in(span) where span = any (v_spans);
  return cardinality(v_gone);
end $$;

-- The same in two steps, for when a task of the batch is refused: the tasks of the batch, and then some of them. None while somebody else purges.
create function find_tasks_to_purge(p_max_age_ms bigint, p_max_count bigint, p_batch integer) returns table (task_id uuid, ended_at timestamptz)
language plpgsql set search_path from current set enable_seqscan = off set jit = off set lock_timeout = '500ms'
as $$
begin
  if not pg_try_advisory_xact_lock(gate_lock_id('service', 'purge')) then
    return;
  end if;
  return query
    select e.task_id, e.ended_at
    from ended_to_purge(p_max_age_ms, p_max_count, p_batch) p cross join unnest(p.tasks) t (id) join ended e on e.task_id = t.id;
end $$;

-- A task that was retried in between, and has ended again, stays.
create function purge_tasks(p_tasks uuid[], p_ended_at timestamptz[]) returns integer
language plpgsql set search_path from current set enable_seqscan = off set jit = off set lock_timeout = '500ms'
as $$
declare
  v_locked uuid[] := lock_ended(p_tasks);
  v_gone   uuid[] := array(
    select e.task_id from unnest(p_tasks, p_ended_at) t (id, ended_at) join ended e on e.task_id = t.id and e.ended_at = t.ended_at
    where e.task_id = any (v_locked));
begin
  perform delete_ended(v_gone);
  return cardinality(v_gone);
end $$;

-- A task may be tried for ever: one that snoozes every minute, for example. Its first 10 attempts stay, and its newest 100. The others leave,
-- with what they said of themselves. end_claims calls this at every fiftieth attempt, so up to 150 of the newest are on record. Which are the
-- newest is known by their claims, because at the limit of its counter a task has many attempts of one number.
create function trim_attempts(p_tasks uuid[]) returns void
language plpgsql set search_path from current set enable_seqscan = off set jit = off
as $$
declare
  v_claims bigint[];
begin
  with newest as (
    select task_id, (array_agg(claim_id order by claim_id desc))[100] as oldest_claim from attempt where task_id = any (p_tasks) group by task_id
  ), gone as (
    delete from attempt a using newest n where a.task_id = n.task_id and a.attempt > 10 and a.claim_id < n.oldest_claim returning a.claim_id
  )
  select array_agg(claim_id) into v_claims from gone;
  delete from progress where claim_id = any (v_claims);
  delete from late where task_id = any (p_tasks) and claim_id = any (v_claims);
end $$;

-- What is put right without anybody asking, in small batches. One at a time: whoever finds another at it leaves it.

-- Tasks in idle or paused queues expire too, not only those that a claim meets. What is locked is passed over.
create function overdue_tasks(p_batch integer) returns setof uuid
language sql set search_path from current
as $$
  select unnest(
    array(select task_id from ready where expires_at <= now() order by expires_at limit p_batch for update skip locked)
    || array(select task_id from parked where expires_at <= now() order by expires_at limit p_batch for update skip locked))
$$;

-- A row of `ready` that carries its input is found by the place that its task names. Somebody may have moved it by hand, or its task may be gone. Such a row
-- is found by its time, because it would come again with every batch otherwise. Its task is not ended if it is running, pending or ended elsewhere.
create function expire_tasks(p_tasks uuid[]) returns integer
language plpgsql set search_path from current set enable_seqscan = off set jit = off set enable_bitmapscan = off set lock_timeout = '500ms'
as $$
declare
  v_error   json := json_build_object('code', 'TASK_EXPIRED', 'message', 'The task was not started before its time ran out.');
  v_expired integer := (select count(*) from end_pending(p_tasks, 'expired', v_error));
  v_strays  integer;
  v_ended   uuid[];
begin
  if v_expired = cardinality(p_tasks) then
    return v_expired;
  end if;
  with stray as (
    delete from ready where expires_at <= now() and task_id = any (p_tasks) returning task_id, attempt, failures, crashes
  ), stray_ended as (
    insert into ended (task_id, state, attempt, failures, crashes, ended_at, error_code, error)
    select distinct on (task_id) task_id, 'expired', attempt - 1, failures, crashes, now(), v_error ->> 'code', v_error
    from stray where task_state(task_id) is null
    returning task_id
  )
  select (select count(*) from stray), array_agg(task_id) into v_strays, v_ended from stray_ended;
  if v_ended is not null then
    perform tell_waiters(v_ended);
  end if;
  return v_expired + v_strays;
end $$;

-- Tasks whose worker was told to cancel them, and neither did nor said anything until the grace and a margin were over.
-- What is locked is passed over.
create function overdue_cancels(p_batch integer) returns table (claim_id bigint, task_id uuid, replica_id uuid)
language sql set search_path from current
as $$
  select claim_id, task_id, replica_id from running where cancel_force_at < now() - interval '5 seconds' order by cancel_force_at limit p_batch
  for update skip locked
$$;

create function force_cancels(p_claims bigint[], p_tasks uuid[], p_owners uuid[]) returns integer
language sql set search_path from current set lock_timeout = '500ms'
as $$
  select count(*)::integer from end_alike(
    p_claims, p_tasks, p_owners, '{running}', 'cancelled', 'cancelled',
    json_build_object('code', 'TASK_CANCELLED', 'message', 'Cancelled by request; its worker did not confirm it within the grace.'))
$$;

-- The record is searched for what is too old now and then, once for all replicas, and not by each of them with every upkeep. A replica that
-- keeps less than the last one that searched does not wait: it searches at once.
create table upkeep (
  is_only       boolean primary key default true check (is_only),
  purged_at     timestamptz not null,
  max_age_ms    bigint,
  max_count     bigint,
  surveyed_at   timestamptz not null default '-infinity', -- see survey_ended
  surveyed_file oid,
  lanes_after   xid8, -- see retire_lanes
  lanes_next_at timestamptz not null default '-infinity'
);
insert into upkeep (purged_at) values ('-infinity');

create function purge_if_due(p_max_age_ms bigint, p_max_count bigint, p_every_ms bigint, p_batch integer) returns integer
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_purged integer;
begin
  -- One at a time, and in a transaction that has the lock of no exclusive key: nobody waits for one that purges.
  if not pg_try_advisory_xact_lock(gate_lock_id('service', 'purge')) then
    return 0;
  end if;
  -- Not a time to come, should the server's clock have been set back.
  if exists (
    select from upkeep
    where purged_at between now() - make_interval(secs => p_every_ms / 1000.0) and now()
      and (p_max_age_ms is null or max_age_ms <= p_max_age_ms) and (p_max_count is null or max_count <= p_max_count))
  then
    return 0;
  end if;
  v_purged := purge_ended(p_max_age_ms, p_max_count, p_batch);
  -- A full batch: there is more.
  update upkeep set purged_at = case when v_purged < p_batch then now() else '-infinity' end, max_age_ms = p_max_age_ms, max_count = p_max_count;
  return v_purged;
end $$;

-- Takes lanes out that no pending task is in, so that claims cost no more for all the queues that were ever used. Nobody waits for this
-- and it waits for nobody; it is done in three steps, each in a transaction of its own, and can be left off after any of them:
--   1. Empty lanes are marked as leaving. Whoever puts a task into such a lane from now on adds another row for it.
--   2. The number of a later transaction is noted: everybody who may have seen the lane as staying has a lower one, because
--      whoever looks for its lane has its own number by then (see add_lanes).
--   3. When all lower numbers have ended, what they put in can be seen. Lanes that are still empty are deleted, the others stay.
-- A transaction that keeps an old snapshot may have seen the lane as staying, too, and have a higher number. It has locked the lane's row
-- (see keep_lane), and a row that is locked is left for the next time.
-- A few lanes cost nothing worth saving, so as long as there are no more than p_keep of them all stay, and nothing is written.
create function retire_lanes(p_keep integer default 64) returns void
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set lock_timeout = '500ms'
as $$
declare
  v_began timestamptz := clock_timestamp();
  v_after xid8;
  v_going uuid[];
begin
  perform require_read_committed();
  -- The steps compare this transaction's number. It must have been given after the last step was committed.
  if not pg_try_advisory_xact_lock(gate_lock_id('service', 'lanes')) or pg_current_xact_id_if_assigned() is not null then
    return;
  end if;
  -- Rationed by its own cost, which is high where another transaction keeps what was claimed from being cleaned up. Not until
  -- a time far ahead, should the server's clock have been set back.
  select lanes_after into v_after from upkeep where lanes_next_at not between v_began and v_began + interval '10 minutes';
  if not found or not exists (select from lane offset p_keep) then
    return;
  end if;
  -- A second row for the same lane may go at once: whoever has seen it can rely on the first, which goes only in these three steps.
  v_going := array(
    select p.id from (
      select id, row_number() over in_place > 1 and not first_value(is_leaving) over in_place as is_second
      from lane window in_place as (partition by queue, priority order by is_leaving, id)) p
    where p.is_second);
  delete from lane where id = any (array(select id from lane where id = any (v_going) for update skip locked));
  if exists (select from lane where is_leaving) then
    -- A number that was not given out yet is that of another server, of which this one is a copy.
    if v_after is null or v_after > pg_current_xact_id() then
      update upkeep set lanes_after = pg_current_xact_id();
      return;
    end if;
    if pg_snapshot_xmin(pg_current_snapshot()) < v_after then
      return;
    end if;
    v_going := array(
      select l.id from lane l
      where l.is_leaving and not exists (select from ready r where r.queue = l.queue and r.priority = l.priority)
      for update of l skip locked);
    -- Looked at again, now that they are locked: whoever kept one of them until now has put a task into it.
    delete from lane l where l.id = any (v_going) and not exists (select from ready r where r.queue = l.queue and r.priority = l.priority);
    update lane set is_leaving = false where is_leaving;
  end if;
  update lane l set is_leaving = true
  where not l.is_leaving and not exists (select from ready r where r.queue = l.queue and r.priority = l.priority);
  update upkeep set lanes_after = null, lanes_next_at = clock_timestamp() + 20 * (clock_timestamp() - v_began);
end $$;

-- All of it in one statement, but for the purge. Where that fails, its parts are done one by one (src/worker/upkeep-in-parts.ts). It passes over
-- rows that are locked, and waits for nothing else for long: it has the locks of exclusive keys, for which workers wait.
create function run_upkeep(p_batch integer) returns table (expired integer, unparked integer, cancelled integer)
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
begin
  if not pg_try_advisory_xact_lock(gate_lock_id('service', 'upkeep')) then
    return;
  end if;
  perform retire_lanes(); -- before anything else is written
  -- First the only one that waits for locks, those of exclusive keys; so nobody waits in a circle.
  select force_cancels(array_agg(c.claim_id), array_agg(c.task_id), array_agg(distinct c.replica_id)) into cancelled from overdue_cancels(p_batch) c;
  expired := expire_tasks(array(select * from overdue_tasks(p_batch)));
  unparked := unpark_every_kind(p_batch);
  return next;
end $$;

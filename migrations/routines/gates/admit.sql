-- Of these locked rows of `ready`, those that this replica may claim now (`admitted`). The others are moved out of the way, so that
-- the next claim does not walk over them again: parked behind their key, put off by their rate or because they are
-- suspected of having killed a worker and must run apart, or expired. Some stay where they are, undecided: somebody else
-- has their lock at this moment (`busy`: these locks).
create or replace function admit(p_rows tid[], p_replica uuid, out admitted tid[], out busy bigint[])
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

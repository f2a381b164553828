-- After a claim has failed: the first thing that is found to make it fail is taken out of the way. Queues whose settings cannot be used are
-- paused. Returns the tasks that were set aside and, without a task, the queues that were paused, and those in which everything stays (`is_left`): nothing
-- can be claimed, neither from them nor from others. Returns nothing if the claim would go through now, or another worker is at this.
-- It has the arguments of claim_tasks, for the sake of whoever calls both.
create or replace function set_aside_bad(
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
    perform pause_for_trouble(queue, 'its settings cannot be used: ' || reason, 'Set them anew');
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
    end if;
    return next;
  end loop;
end $$;

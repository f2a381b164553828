-- What no worker can claim: rows that raise an error in the middle of a claim, such as a limit of zero that was written by hand, or a
-- task without its record. A claim takes many rows in one statement, and fails as a whole. Then its worker calls set_aside_bad, which
-- finds out by trying which rows it is, and takes these out of the way. So a claim itself pays nothing for this.

-- Why a queue was paused that nobody has paused: its settings cannot be used. Null once they are changed.
alter table queue add column trouble text;

-- Whether an error says something about the rows at hand, and not about the server, a lock or a connection (see isAboutTheValues).
create function is_about_rows(p_sqlstate text) returns boolean
language sql immutable
as $$ select p_sqlstate ~ '^(21|22|23|54|P0|EB005|XX001)' $$;

-- Which of these rows of a queue's, which are locked, cannot be claimed, and why. All of them are tried at once, and where that fails, each half of
-- them. Nothing of it stays.
create function bad_rows(p_rows tid[], p_queue text, p_replica uuid, p_names text[]) returns table (row_id tid, reason text)
language plpgsql set search_path from current
as $$
declare
  v_middle integer := cardinality(p_rows) / 2;
  v_lanes  uuid[] := array(select id from lane where queue = p_queue);
  v_reason text;
begin
  begin
    -- As if they had just been let go, and from the end of each lane on nothing else.
    perform claim_tasks(p_replica, p_names, array[p_queue], array[null::integer], cardinality(p_rows), 0,
      v_lanes, array_fill('infinity'::timestamptz, array[cardinality(v_lanes)]), array_fill(p_replica, array[cardinality(v_lanes)]),
      p_ended => json_build_object('unparked', p_rows::text[], 'areFree', false));
    raise exception using errcode = 'EB999'; -- they are all right
  exception when others then
    if sqlstate = 'EB999' then
      return;
    end if;
    if not is_about_rows(sqlstate) then
      raise;
    end if;
    v_reason := format('%s (%s)', sqlerrm, sqlstate);
  end;
  if v_middle = 0 then
    return query select p_rows[1], v_reason;
  else
    return query select * from bad_rows(p_rows[: v_middle], p_queue, p_replica, p_names);
    return query select * from bad_rows(p_rows[v_middle + 1 :], p_queue, p_replica, p_names);
  end if;
end $$;

create function raise_alert(p_kind text, p_subject text, p_message text, p_details json) returns void
language sql set search_path from current
as $$
  insert into alert (kind, subject, message, details) values (p_kind, p_subject, p_message, p_details)
  on conflict (kind, subject) where resolved_at is null do nothing
$$;

-- A row that cannot be claimed: its task fails, and can be retried when what is wrong has been put right. Where the task is running or has
-- ended all the same, the row is one too many and only it goes.
create function set_aside(p_row tid, p_reason text) returns table (task_id uuid, name text, queue text, reason text)
language plpgsql set search_path from current
as $$
declare
  v_row     ready;
  v_message text := format('No worker can claim it: %s.', p_reason);
begin
  delete from ready where ctid = p_row returning * into v_row;
  if not found then
    return;
  end if;
  if not exists (select from running u where u.task_id = v_row.task_id) then
    insert into ended (task_id, state, attempt, failures, crashes, ended_at, error_code, error)
    values (v_row.task_id, 'failed', v_row.attempt - 1, v_row.failures, v_row.crashes, now(), 'NOT_CLAIMABLE',
            json_build_object('code', 'NOT_CLAIMABLE', 'message', v_message))
    on conflict do nothing;
    perform tell_waiters(array[v_row.task_id]);
  end if;
  perform raise_alert('not-claimable', v_row.name,
    format('Task %s (%s) of queue "%s" was set aside. %s Put that right, then: everbeat tasks retry %s. There may be others of this name.',
           v_row.task_id, v_row.name, v_row.queue, v_message, v_row.task_id),
    json_build_object('task', v_row.task_id, 'queue', v_row.queue, 'reason', p_reason));
  return query select v_row.task_id, v_row.name, v_row.queue, p_reason;
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

-- After a claim has failed: of what a claim of p_most would take, whatever cannot be claimed is set aside, and queues whose settings cannot be used
-- are paused. Returns the tasks that were set aside and, without a task, the queues that were paused.
create function set_aside_bad(p_replica uuid, p_names text[], p_queues text[], p_most integer)
returns table (task_id uuid, name text, queue text, reason text)
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
declare
  v_queue    queue;
  v_lane     record;
  v_rows     tid[];
  v_bad      record;
begin
  for v_queue in
    select * from queue q where not q.paused and q.rate_limit is not null and (p_queues is null or q.name = any (p_queues)) order by q.name
  loop
    reason := queue_trouble(v_queue);
    continue when reason is null;
    update queue q set paused = true, trouble = reason, changed_at = now() where q.name = v_queue.name;
    perform raise_alert('queue-not-usable', v_queue.name,
      format('Queue "%s" was paused: its settings cannot be used: %s. Set them anew (everbeat queues set %s), then: everbeat queues resume %s.',
             v_queue.name, reason, v_queue.name, v_queue.name),
      json_build_object('reason', reason));
    queue := v_queue.name;
    return next;
  end loop;
  for v_lane in
    select distinct l.queue, l.priority from lane l left join queue q on q.name = l.queue
    where q.paused is not true and (p_queues is null or l.queue = any (p_queues))
    order by l.priority
  loop
    v_rows := array(
      select r.ctid from ready r
      where r.queue = v_lane.queue and r.priority = v_lane.priority and r.run_at <= now() and r.name = any (p_names)
      order by r.run_at, r.task_id limit p_most for update skip locked);
    continue when v_rows = '{}';
    for v_bad in select * from bad_rows(v_rows, v_lane.queue, p_replica, p_names) loop
      return query select * from set_aside(v_bad.row_id, v_bad.reason);
    end loop;
  end loop;
end $$;

-- The alert about tasks of these names is over when somebody retries one of them: it is raised again if that one cannot be claimed either.
create function end_claim_alerts(p_tasks uuid[]) returns void
language sql set search_path from current
as $$
  update alert set resolved_at = now()
  where kind = 'not-claimable' and resolved_at is null and subject in (select name from task where id = any (p_tasks))
$$;

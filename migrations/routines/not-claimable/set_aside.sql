-- A row that cannot be claimed: its task fails, and can be retried when what is wrong has been put right. Where the task is pending, running or
-- ended elsewhere, the row is one too many and only it goes. Where the database refuses that too, the row is put off for a while; so it is where its
-- task must not fail (p_stays), since it may be all right later.
create or replace function set_aside(p_bad bad_row, p_stays boolean) returns table (task_id uuid, name text, queue text, reason text)
language plpgsql set search_path from current
as $$
#variable_conflict use_column
declare
  v_row     ready := p_bad.place;
  v_message text := format('No worker can claim it: %s.', p_bad.reason);
  v_how     text := format('was set aside. %s Put that right, then run it again.', v_message);
  v_place   tid;
begin
  select r.ctid into v_place from ready r
  where r.queue = v_row.queue and r.priority = v_row.priority and r.run_at = v_row.run_at and r.task_id = v_row.task_id
  for update skip locked;
  if not found then
    return;
  end if;
  begin
    if p_stays then
      perform leave_pending('{}', array[v_place]);
      if task_state(v_row.task_id) is null then
        raise exception using errcode = 'EB999';
      end if;
    else
      perform end_pending('{}', 'failed', json_build_object('code', 'NOT_CLAIMABLE', 'message', v_message), array[v_place]);
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

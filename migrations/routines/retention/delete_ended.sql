-- Deletes ended tasks that are locked, with all that is on record of them. They take their unique keys along, unless a key was asked for longer: then it
-- goes on without its task, and leaves when its time is over.
create or replace function delete_ended(p_tasks uuid[]) returns void
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

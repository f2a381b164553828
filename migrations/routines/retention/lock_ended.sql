-- Locks these tasks, and returns those of them that nobody else has locked, in the same order. Somebody may be about to retry a task, to enqueue
-- its id again, or to decide over its unique key: such a task stays until the next time. One that has no task on record is nobody's. A task that
-- was refused a while ago is left out.
create or replace function lock_ended(p_tasks uuid[]) returns uuid[]
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

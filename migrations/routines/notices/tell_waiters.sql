-- Wakes those who wait for one of these tasks. The board is nearly always empty, so this nearly always is nothing.
create or replace function tell_waiters(p_tasks uuid[]) returns void
language sql set search_path from current set enable_seqscan = off set jit = off
as $$
  select notify_all('ended', w.task_id::text) from (select distinct task_id from waiter where task_id = any (p_tasks)) w
$$;

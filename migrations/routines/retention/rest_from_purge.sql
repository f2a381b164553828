-- Leaves a task alone that was refused. Returns how often it was.
create or replace function rest_from_purge(p_task uuid, p_told_as text) returns integer
language sql set search_path from current set lock_timeout = '500ms'
as $$
  insert into not_purged (task_id, times, rests_until, told_as) values (p_task, 1, now() + interval '1 minute', p_told_as)
  on conflict (task_id) do update
  set times = least(not_purged.times + 1, 1000), told_as = p_told_as,
      rests_until = now() + least(2 ^ least(not_purged.times, 10), 60) * interval '1 minute'
  returning times
$$;

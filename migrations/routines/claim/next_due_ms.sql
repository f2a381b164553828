-- For a worker that found nothing: how long until a task of its kind is due, or until its queue's rate allows another; in
-- milliseconds, null where none waits. Looks no further into a lane than c_walk tasks: where none of these is of its kind, the worker
-- looks again when the last of them is due.
create or replace function next_due_ms(p_names text[], p_queues text[]) returns bigint
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  c_walk constant integer := 1000;
  v_next timestamptz;
begin
  select min(d.due) into v_next
  from lane l
  left join queue q on q.name = l.queue
  cross join lateral (
    select case when q.rate_limit is not null and (
             select bool_or(f.name = any (p_names)) from (
               select r.name from ready r where r.queue = l.queue and r.priority = l.priority and r.run_at <= now()
               order by r.run_at, r.task_id limit c_walk) f)
      then next_in_rate(l.queue, q.rate_limit, q.rate_per_ms) end as due
    union all
    select coalesce(
      (select f.run_at from (
         select r.run_at, r.name from ready r where r.queue = l.queue and r.priority = l.priority and r.run_at > now()
         order by r.run_at, r.task_id limit c_walk) f
       where f.name = any (p_names) order by f.run_at limit 1),
      (select r.run_at from ready r where r.queue = l.queue and r.priority = l.priority and r.run_at > now()
       order by r.run_at, r.task_id offset c_walk - 1 limit 1))
  ) d
  where q.paused is not true and (p_queues is null or l.queue = any (p_queues));
  return ceil(extract(epoch from v_next - clock_timestamp()) * 1000);
end $$;

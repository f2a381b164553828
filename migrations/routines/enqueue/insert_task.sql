-- What insert_tasks does, for one task with a fresh id, due at once and with no other terms, in a transaction of its own: in fewer steps.
-- Returns whether a worker is told.
create or replace function insert_task(p_id uuid, p_name text, p_queue text, p_priority smallint, p_input json) returns boolean
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
begin
  insert into task (id, name, queue, priority, run_at, input) values (p_id, p_name, p_queue, p_priority, now(), p_input);
  insert into ready (task_id, queue, priority, run_at, name, gated, input)
  values (p_id, p_queue, p_priority, now(), p_name, false, case when octet_length(p_input::text) <= 256 then p_input end);
  -- The same look as in add_lanes, without the call.
  if sees_the_past() or not exists (select from lane where queue = p_queue and priority = p_priority and not is_leaving) then
    perform add_lanes(array[p_queue], array[p_priority]);
  end if;
  return ring(array[p_queue]);
end $$;

-- A task that was let go may never be claimed: nobody knows a task of that name, for example. So that those behind it do
-- not wait for ever, the first of every kind is let go where a key is free.
create or replace function unpark_every_kind(p_batch integer) returns integer
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
as $$
declare
  v_key   text;
  v_room  integer;
  v_freed tid[] := '{}';
begin
  perform require_read_committed();
  for v_key in select exclusive_key from (select distinct exclusive_key from parked) k order by random() limit p_batch loop
    -- Never waits: whoever has the key's lock is letting tasks go right now.
    continue when not pg_try_advisory_xact_lock(gate_lock_id('exclusive', v_key));
    select coalesce(t.exclusive_limit, 1) - (select count(*) from running where exclusive_key = v_key) into v_room
    from parked p left join task t on t.id = p.task_id
    where p.exclusive_key = v_key order by p.queue, p.priority, p.run_at, p.task_id limit 1;
    continue when not found or v_room <= 0;
    v_freed := v_freed || make_ready(array(
      select ctid from parked where ctid = any (array(
        select row_id from (
          select ctid as row_id, row_number() over (partition by queue, name order by priority, run_at, task_id) as place
          from parked where exclusive_key = v_key) p
        where place <= v_room))
      for update skip locked));
  end loop;
  perform ring_for(v_freed);
  return cardinality(v_freed);
end $$;

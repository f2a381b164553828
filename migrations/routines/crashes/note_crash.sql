-- The death of a replica that ran tasks, and how many of them are suspects. Where its memory was shared with other replicas (`p_sharers`), what these
-- run is suspected too. If they run nothing any more, what they ran before may still hold memory, and counts as one.
create or replace function note_crash(p_replica uuid, p_sharers uuid[] default '{}') returns setof crash
language sql set search_path from current set lock_timeout = '500ms'
as $$
  with shared as materialized (
    select u.task_id from running u where u.replica_id = any (p_sharers) and u.state = 'running'
  ), others as (
    select case when cardinality(p_sharers) = 0 then 0 else greatest(1, (select count(*) from shared)) end::integer as count
  ), noted as (
    insert into crash (replica_id, suspects, most, with_most)
    select p_replica, c.suspects + o.count, case o.count when 0 then c.most else 0 end,
           case o.count when 0 then c.with_most else c.suspects + o.count end
    from crowd_of(p_replica) c cross join others o where c.suspects > 0
    on conflict (replica_id) do nothing returning 1
  )
  insert into suspicion (task_id, replica_id, is_charged, is_apart)
  select task_id, p_replica, false, false from shared where exists (select from noted)
  on conflict do nothing;
  select * from crash where replica_id = p_replica;
$$;

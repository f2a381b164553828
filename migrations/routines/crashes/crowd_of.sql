-- How many suspects there are among the tasks that this replica is running, the most crashes that one of them has been at before, and how many have been at so many. Where some
-- of them have told it to stop, only those are counted.
create or replace function crowd_of(p_replica uuid) returns table (suspects integer, most integer, with_most integer)
language sql stable set search_path from current
as $$
  with stopper as materialized (
    select s.claim_id from stoppers_of(p_replica) s
  ), present as (
    select least(u.crashes + (select count(*) from suspicion s
                              where s.task_id = u.task_id and not s.is_charged and s.replica_id <> p_replica), 2147483647)::integer as earlier
    from running u where u.replica_id = p_replica and u.state = 'running'
      and (not exists (select from stopper) or u.claim_id in (select s.claim_id from stopper s))
  ), counted as (
    select count(*)::integer as suspects, coalesce(max(earlier), 0) as most from present
  )
  select c.suspects, c.most, (select count(*)::integer from present p where p.earlier = c.most) from counted c
$$;

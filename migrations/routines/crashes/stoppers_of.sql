-- What this replica is still running of the tasks that have told it to stop.
create or replace function stoppers_of(p_replica uuid) returns table (claim_id bigint, task_id uuid, name text)
language sql stable set search_path from current
as $$
  select u.claim_id, u.task_id, u.name from replica r
  join running u on u.replica_id = r.id and u.state = 'running' and u.claim_id = any (r.stopped_by)
  where r.id = p_replica
$$;

-- p_suspects is an array of { task, claim, isCharged, isApart }. Before their attempts are ended, and gated from then on,
-- so that whoever claims them next asks (see admit). Not of attempts that have ended: somebody else recovers, and may have cleared them.
create or replace function note_suspects(p_replica uuid, p_suspects json) returns void
language sql set search_path from current
as $$
  -- In the order in which everybody locks them.
  select from running u join json_to_recordset(p_suspects) as x (task uuid, claim bigint) on x.claim = u.claim_id and x.task = u.task_id
  where u.replica_id = p_replica order by u.claim_id for update of u;
  insert into suspicion (task_id, replica_id, is_charged, is_apart)
  select x.task, p_replica, x."isCharged", x."isApart"
  from json_to_recordset(p_suspects) as x (task uuid, claim bigint, "isCharged" boolean, "isApart" boolean)
  join running u on u.replica_id = p_replica and u.claim_id = x.claim and u.task_id = x.task
  on conflict do nothing;
  update running set gated = true
  where not gated and replica_id = p_replica
    and (claim_id, task_id) in (select x.claim, x.task from json_to_recordset(p_suspects) as x (claim bigint, task uuid));
$$;

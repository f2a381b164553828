-- Claims of this replica that it does not know of: their claim was committed and the reply was lost.
create or replace function adopt_claims(p_replica uuid, p_claims bigint[], p_tasks uuid[]) returns setof claim_row
language sql set search_path from current
as $$
  select r.claim_id, r.task_id, r.state, r.name, r.attempt, r.failures, r.crashes, milliseconds(t.created_at), t.input, t.metadata,
         r.exclusive_key, r.queue, r.priority, null::uuid, null::timestamptz
  from running r join task t on t.id = r.task_id
  where r.replica_id = p_replica and not coalesce((r.claim_id, r.task_id) in (select * from unnest(p_claims, p_tasks)), false)
$$;

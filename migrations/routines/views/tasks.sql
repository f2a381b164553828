create or replace view tasks as
select t.id, t.name, t.queue, t.priority, t.created_at,
       coalesce(e.state, u.state, case when f.task_id is not null or r.task_id is not null or p.task_id is not null then 'pending' end) as state,
       coalesce(u.attempt, f.attempt - 1, r.attempt - 1, p.attempt - 1, e.attempt) as attempt,
       coalesce(e.failures, u.failures, f.failures, r.failures, p.failures) as failures,
       coalesce(e.crashes, u.crashes, f.crashes, r.crashes, p.crashes) as crashes,
       coalesce(r.run_at, p.run_at, u.run_at, t.run_at) as run_at,
       coalesce(u.claim_id, e.claim_id) as claim_id,
       coalesce(u.replica_id, e.replica_id) as replica_id,
       coalesce(u.claimed_at, e.claimed_at) as claimed_at,
       coalesce(u.started_at, e.started_at) as started_at,
       e.ended_at, u.cancel_requested_at, t.expires_at, t.unique_key, t.exclusive_key, t.rate_key,
       p.task_id is not null as is_parked,
       t.input, t.metadata, e.result, e.error, e.error_code
from task t
left join ended e on e.task_id = t.id
left join running u on u.task_id = t.id
left join ready f on waits_at(f, t)
left join ready r on r.task_id = t.id and r.input is null
left join parked p on p.task_id = t.id;

create or replace view attempts as
select claim_id, task_id, replica_id, attempt, claimed_at, started_at, ended_at, outcome, result, error from attempt
union all
select claim_id, task_id, replica_id, attempt, claimed_at, started_at, ended_at, state, result, error
from ended where claim_id is not null
union all
select claim_id, task_id, replica_id, attempt, claimed_at, started_at, null, state, null, null from running;

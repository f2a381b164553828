-- A running task depends on its runner's heart where it has one, its claim on its replica's.
create or replace view heartbeats as
select r.claim_id as id, r.task_id, coalesce(n.id, r.replica_id) as sender_id,
       case r.state when 'claimed' then 'claimer' else 'runner' end as role,
       coalesce(n.beat_at, h.beat_at) as sent_at, x.hostname, coalesce(n.pid, x.pid) as pid
from running r
left join heart h on h.replica_id = r.replica_id
left join replica x on x.id = r.replica_id
left join runner n on n.id = r.runner_id and r.state = 'running';

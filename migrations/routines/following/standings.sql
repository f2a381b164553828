-- How these tasks stand: what a follower's view of them is compared with. Those that are not on record are left out.
create or replace function standings(p_tasks uuid[]) returns table (
  task_id uuid, state text, attempt integer, claim_id bigint, replica_id uuid, is_cancelling boolean,
  phase text, details json, share double precision, done double precision, total double precision, note text, ended_at timestamptz, error json)
language sql stable set search_path from current
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  select x.id, coalesce(e.state, u.state, 'pending'), coalesce(e.attempt, u.attempt), coalesce(e.claim_id, u.claim_id), coalesce(e.replica_id, u.replica_id),
         u.cancel_requested_at is not null, p.phase, short_details(p.details), p.share, p.done, p.total, p.note, e.ended_at, e.error
  from (select distinct t from unnest(p_tasks) t) x (id)
  join lateral (select from task where id = x.id offset 0) t on true
  left join lateral (select * from ended where task_id = x.id offset 0) e on true
  left join lateral (select * from running where task_id = x.id offset 0) u on true
  left join lateral (select * from progress where claim_id = coalesce(e.claim_id, u.claim_id) offset 0) p on true
$$;

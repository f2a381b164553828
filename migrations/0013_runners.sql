-- Runners: threads and processes in which a replica runs tasks. Their beats come to the database with their replica's own, in
-- the same statement, so that a replica uses one connection for its heart however many runners it has.

create table runner (
  id         uuid primary key,
  replica_id uuid not null,
  kind       text not null check (kind in ('thread', 'process')),
  pid        integer not null,
  started_at timestamptz not null,
  beat_at    timestamptz not null,
  status     text not null check (status in ('starting', 'idle', 'busy', 'ending', 'ended')),
  vitals     json,
  ended_at   timestamptz,
  exit       json                  -- code, signal, because
) with (fillfactor = 50);
create index runner_replica on runner (replica_id);

-- Told with the beats too: a task that is over sooner never gets one on record, and needs none.
alter table running add column runner_id uuid;

-- What a replica tells of its runners. Times come as how long ago they were, by the replica's own steady clock.
create function note_runners(p_replica uuid, p_runners json) returns void
language plpgsql set search_path from current
as $$
begin
  insert into runner (id, replica_id, kind, pid, started_at, beat_at, status, vitals, ended_at, exit)
  select x.id, p_replica, x.kind, x.pid, now() - make_interval(secs => x.age_ms / 1000), now() - make_interval(secs => x.silent_ms / 1000),
         x.status, nullif(x.vitals, 'null')::json, case when x.status = 'ended' then now() end, nullif(x.exit, 'null')::json
  from json_to_recordset(p_runners) as x (id uuid, kind text, pid integer, age_ms float8, silent_ms float8, status text, vitals text, exit text)
  order by x.id
  on conflict (id) do update
  set replica_id = excluded.replica_id, beat_at = excluded.beat_at, status = excluded.status,
      vitals = coalesce(excluded.vitals, runner.vitals), ended_at = excluded.ended_at, exit = excluded.exit
  -- What was known of one when its end was written may come after that.
  where runner.ended_at is null;

  -- A claim that somebody is ending at this moment needs no runner any more: a beat must not wait for it.
  with told as (
    select c.claim as claim_id, c.task as task_id, x.id
    from json_to_recordset(p_runners) as x (id uuid, claims json), json_to_recordset(x.claims) as c (claim bigint, task uuid)
  ), held as (
    select u.claim_id, t.id from running u join told t on t.claim_id = u.claim_id and t.task_id = u.task_id
    where u.replica_id = p_replica and u.runner_id is distinct from t.id
    for update of u skip locked
  )
  update running u set runner_id = held.id from held where u.replica_id = p_replica and u.claim_id = held.claim_id;
end $$;

-- A running task depends on its runner's heart where it has one, its claim on its replica's.
create or replace view heartbeats as
select r.claim_id as id, r.task_id, coalesce(n.id, r.replica_id) as sender_id,
       case r.state when 'claimed' then 'claimer' else 'runner' end as role,
       coalesce(n.beat_at, h.beat_at) as sent_at, x.hostname, coalesce(n.pid, x.pid) as pid
from running r
left join heart h on h.replica_id = r.replica_id
left join replica x on x.id = r.replica_id
left join runner n on n.id = r.runner_id and r.state = 'running';

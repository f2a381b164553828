-- What a replica tells of its runners. Times come as how long ago they were, by the replica's own steady clock.
create or replace function note_runners(p_replica uuid, p_runners json) returns void
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

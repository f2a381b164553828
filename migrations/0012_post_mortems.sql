-- Deaths: why a process is thought to have died, which of its tasks are suspected of it, how often machines fail.

alter table replica
  add column came_back_at timestamptz,   -- it had been given up and was not dead: it is here again, under another id
  add column came_back_how text;         -- fenced: it had stopped its own work; refused: it heard of its death from a beat

create table post_mortem (
  id          bigint generated always as identity primary key,
  kind        text not null check (kind in ('replica', 'runner', 'attempt')),
  replica_id  uuid,
  runner_id   text,
  task_id     uuid,
  claim_id    bigint,
  name        text,
  hostname    text,
  happened_at timestamptz not null,
  cause       text not null,
  sentence    text not null,
  evidence    text[] not null   -- line by line
);
create unique index post_mortem_replica on post_mortem (replica_id) where kind = 'replica';
create unique index post_mortem_attempt on post_mortem (claim_id) where kind = 'attempt';
create index post_mortem_task on post_mortem (task_id) where task_id is not null;
create index post_mortem_of_replica on post_mortem (replica_id) where kind <> 'replica';
create index post_mortem_age on post_mortem (happened_at);

-- What a process was running when it died, counted once, before the first of its tasks is recovered: a recovery that is
-- done in two halves must not find the second half to have been alone.
create table crash (
  replica_id  uuid primary key,
  happened_at timestamptz not null default now(),
  running     integer not null,
  most        integer not null,  -- the most earlier crashes that one of them had been at
  with_most   integer not null   -- how many of them have been at so many
);

-- The crashes that a task was at and that it may have caused. Charged: it was alone. Apart: it runs beside no other suspect
-- from now on. A task without a line here has never been at a crash, or was cleared of it.
create table suspicion (
  task_id    uuid not null,
  replica_id uuid not null,
  is_charged boolean not null,
  is_apart   boolean not null,
  primary key (task_id, replica_id)
);
create index suspicion_replica on suspicion (replica_id);

-- Whether it was at a crash that it may have caused: then it is gated, so that whoever claims it next asks whether it may (see admit).
create function is_suspect(p_task uuid) returns boolean
language plpgsql stable set search_path from current
as $$
begin
  return exists (select from suspicion where task_id = p_task);
end $$;

-- Every death and every silence worth a warning, for the reliability of machines. Written by a trigger, so that nobody who
-- declares a replica dead can leave it out.
create table unrest (
  id          bigint generated always as identity primary key,
  kind        text not null check (kind in ('dead', 'stale')),
  machine_id  text not null,
  hostname    text not null,
  replica_id  uuid not null,
  happened_at timestamptz not null default now()
);
create index unrest_age on unrest (happened_at);
create index unrest_replica on unrest (replica_id);

create function note_death() returns trigger
language plpgsql set search_path from current
as $$
begin
  -- The silence that it died of is not one that passed.
  delete from unrest u using heart h where u.kind = 'stale' and u.replica_id = new.id and h.replica_id = new.id and u.happened_at >= h.beat_at;
  insert into unrest (kind, machine_id, hostname, replica_id) values ('dead', coalesce(new.machine_id, new.hostname), new.hostname, new.id);
  return null;
end $$;

create trigger replica_death after update of status on replica
for each row when (new.status = 'dead' and old.status <> 'dead') execute function note_death();

-- How many tasks this replica is running, the most crashes that one of them has been at before, and how many have been at so many.
create function crowd_of(p_replica uuid) returns table (running integer, most integer, with_most integer)
language sql stable set search_path from current
as $$
  with present as (
    select least(u.crashes + (select count(*) from suspicion s
                              where s.task_id = u.task_id and not s.is_charged and s.replica_id <> p_replica), 2147483647)::integer as earlier
    from running u where u.replica_id = p_replica and u.state = 'running'
  ), counted as (
    select count(*)::integer as running, coalesce(max(earlier), 0) as most from present
  )
  select c.running, c.most, (select count(*)::integer from present p where p.earlier = c.most) from counted c
$$;

create function note_crash(p_replica uuid) returns setof crash
language sql set search_path from current set lock_timeout = '500ms'
as $$
  insert into crash (replica_id, running, most, with_most)
  select p_replica, c.running, c.most, c.with_most from crowd_of(p_replica) c where c.running > 0
  on conflict (replica_id) do nothing;
  select * from crash where replica_id = p_replica;
$$;

-- p_suspects is an array of { task, claim, isCharged, isApart }. Before their attempts are ended, and gated from then on,
-- so that whoever claims them next asks (see admit). Not of attempts that have ended: somebody else recovers, and may have cleared them.
create function note_suspects(p_replica uuid, p_suspects json) returns void
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

-- Recovery never waits long for one row: a handler's transaction that stands still may have locked it, and the other tasks of the dead must not
-- wait for that. What is locked is passed over and told as such, and the next sweep tries it again. The lock of an
-- exclusive key is waited for, but not for long (see unpark).

-- Ends the attempts of a replica that is not alive, and notes which of them are suspected of its death (see note_suspects and end_claims).
create function recover_claims(p_replica uuid, p_claims bigint[], p_tasks uuid[], p_outcomes json, p_suspects json,
                               out done text[], out locked text[])
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_free record;
begin
  v_free := lock_free_claims(array[p_replica], p_claims, p_tasks);
  done := coalesce(v_free.claims, '{}');
  locked := v_free.locked;
  if v_free.claims is null then
    return;
  end if;
  if json_array_length(p_suspects) > 0 then
    perform note_suspects(p_replica, coalesce(
      (select json_agg(x) from json_array_elements(p_suspects) x where (x ->> 'claim')::bigint = any (v_free.claims)), '[]'));
  end if;
  perform end_claims(v_free.claims, v_free.tasks, p_outcomes, array[p_replica]);
end $$;

-- Gives back what a replica that is not alive had only claimed.
create function release_absent(p_replica uuid, p_claims bigint[], p_tasks uuid[], out done text[], out locked text[])
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_free record;
begin
  v_free := lock_free_claims(array[p_replica], p_claims, p_tasks);
  done := array(select release_claims(v_free.claims, v_free.tasks, p_replica));
  locked := v_free.locked;
end $$;

-- These are convicted: the crashes that they were at are explained, and the others who were there are cleared of them. Whoever else locks
-- such a line takes it away too.
create function clear_bystanders(p_convicted uuid[]) returns integer
language sql set search_path from current
as $$
  with cleared as (
    delete from suspicion where ctid = any (array(
      select s.ctid from suspicion s
      where not s.is_charged and s.task_id <> all (p_convicted)
        and s.replica_id in (select g.replica_id from suspicion g where g.task_id = any (p_convicted))
      for update of s skip locked))
    returning 1
  )
  select count(*)::integer from cleared
$$;

-- Whether this replica may take a suspect now. One that runs apart runs beside no other suspect, and no suspect beside it.
create function may_take_suspect(p_replica uuid, p_is_apart boolean) returns boolean
language sql set search_path from current
as $$
  select not exists (
    select from running u join suspicion s on s.task_id = u.task_id
    where u.replica_id = p_replica and (p_is_apart or s.is_apart))
$$;

-- A replica that was declared dead was not: it stood still or was cut off, and stopped its own work. Nobody is to blame.
-- Returns how long after its death that was; null: it had not been declared dead. Not waited for long: the replica has work to do. It may be repeated,
-- and the time of the first call stays.
create function forgive_crash(p_replica uuid, p_how text) returns double precision
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_after   double precision;
  v_charged uuid[] := array(select task_id from suspicion where replica_id = p_replica and is_charged order by 1);
begin
  update replica set came_back_at = coalesce(came_back_at, clock_timestamp()), came_back_how = p_how where id = p_replica
  returning extract(epoch from came_back_at - died_at) * 1000 into v_after;
  update ready set crashes = greatest(0, crashes - 1) where task_id = any (v_charged) and input is null;
  update parked set crashes = greatest(0, crashes - 1) where task_id = any (v_charged);
  perform from running where task_id = any (v_charged) order by replica_id, claim_id for update;
  update running set crashes = greatest(0, crashes - 1) where task_id = any (v_charged);
  perform retry_tasks(array(
    select e.task_id from ended e join suspicion s on s.task_id = e.task_id and s.replica_id = p_replica
    where e.state = 'failed' and e.error_code = 'POISONED' and e.replica_id = p_replica), false);
  delete from suspicion where replica_id = p_replica;
  delete from crash where replica_id = p_replica;
  update unrest set kind = 'stale' where replica_id = p_replica and kind = 'dead';
  return v_after;
end $$;

create index ended_poisoned on ended (ended_at) where state = 'failed' and error_code = 'POISONED';

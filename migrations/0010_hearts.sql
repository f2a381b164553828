-- Hearts: one narrow row per process, updated in place, whatever the number of tasks. What silence means is decided
-- elsewhere (src/recovery); here is what is heard, since when, and the conditional writes that follow a verdict.

create table machine (
  id            text primary key,
  hostname      text not null,
  first_seen_at timestamptz not null default now(),
  joined_at     timestamptz not null default now()   -- when a replica of it last joined
);

alter table replica
  add column machine_id text,
  add column died_at timestamptz,
  add column death json,
  add column recovery json;      -- the settings by which it judges, when it is the one that sweeps
-- Those that should be alive, in order: sweeps are not to pay for everyone who has left or died since the last purge.
create index replica_alive on replica (id) where status in ('online', 'draining');

-- beat_at and session_free_since are not indexed, so that a beat is a HOT update. What every beat changes comes last, so that
-- only that goes into the WAL. While all is well no column is null, since the map of nulls would be written with every beat.
create table heart (
  replica_id         uuid primary key,
  interval_ms        integer not null,
  promise_ms         integer not null,   -- without an acknowledged beat for this long, it stops its own work
  session_promise_ms integer not null,   -- the same without its session lock
  session_key        bigint not null,
  session_free_since timestamptz not null default 'infinity' check (session_free_since > '-infinity'), -- since when a reaper has seen the lock free; infinity: it has not
  is_dead            boolean not null default false, -- declared dead: here too, so that a beat at the same time sees it
  epoch              text not null,
  session_epoch      text,               -- the epoch in which it took its lock; null: it has none, or it would mean nothing
  signs              integer[],          -- its vitals (see vitals_of)
  beat_at            timestamptz not null check (isfinite(beat_at)) -- before PostgreSQL 17, one heart that is not would stop all verdicts
) with (fillfactor = 50);

-- Vitals as a beat writes them and as everybody reads them. Without their names, which would be half of it, and as whole numbers
-- of one width, so that nothing moves and only what has changed goes into the WAL: sizes in pages of 4 kB, delays in tenths of a
-- millisecond, cores in hundredths. What changes least comes first.
create function signs_of(p_vitals json) returns integer[]
language sql immutable
as $$
  select array_agg(case when s.n > 2147483647 then 2147483647 else s.n end::integer order by v.place)
  from (values (1, 'memoryLimit', 1 / 4096.0), (2, 'inHand', 1), (3, 'rss', 1 / 4096.0), (4, 'heapUsed', 1 / 4096.0), (5, 'loopP50Ms', 10),
               (6, 'loopP99Ms', 10), (7, 'loopMaxMs', 10), (8, 'blockedForMs', 1), (9, 'cpu', 100)) v (place, name, times)
  cross join lateral (select round((p_vitals ->> v.name)::numeric * v.times) as n) s
  where p_vitals is not null
$$;

create function vitals_of(p_signs integer[]) returns json
language sql immutable
as $$
  select case when p_signs is not null then json_build_object(
    'memoryLimit', p_signs[1]::bigint * 4096, 'inHand', p_signs[2], 'rss', p_signs[3]::bigint * 4096, 'heapUsed', p_signs[4]::bigint * 4096,
    'loopP50Ms', trim_scale(p_signs[5] / 10.0), 'loopP99Ms', trim_scale(p_signs[6] / 10.0), 'loopMaxMs', trim_scale(p_signs[7] / 10.0),
    'blockedForMs', p_signs[8], 'cpu', trim_scale(p_signs[9] / 100.0)) end
$$;

create table beat_history (
  replica_id uuid not null,
  beat_at    timestamptz not null,
  signs      integer[]
);
create index beat_history_replica on beat_history (replica_id, beat_at);
-- Two beats may have the same time, so there is no key; whoever replicates these tables must be able to follow a purge all the same.
alter table beat_history replica identity full;

-- Replica by replica, by the one index that there is: another would be written with every beat that is remembered. Returns how many left.
create function purge_beats(p_max_age_ms double precision, p_batch integer) returns integer
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
declare
  v_replica uuid := '00000000-0000-0000-0000-000000000000';
  v_beats   tid[];
  v_gone    integer := 0;
begin
  loop
    select replica_id into v_replica from beat_history where replica_id > v_replica order by replica_id limit 1;
    exit when not found or v_gone >= p_batch;
    v_beats := array(
      select ctid from beat_history where replica_id = v_replica and beat_at < now() - make_interval(secs => p_max_age_ms / 1000)
      limit p_batch - v_gone for update skip locked);
    delete from beat_history where ctid = any (v_beats);
    v_gone := v_gone + cardinality(v_beats);
  end loop;
  return v_gone;
end $$;

-- What the reapers know together: since when hearts could be heard, when the last sweep was, whether recovery is held.
create table listening (
  is_only           boolean primary key default true check (is_only),
  epoch             text not null,
  hearing_since     timestamptz not null,
  swept_at          timestamptz not null,
  swept_by          uuid,
  sweep_ms          double precision,
  held_since        timestamptz,
  hold_confirmed_at timestamptz,
  looked_at         timestamptz not null default '-infinity', -- for owners that are not alive (see absent_owners)
  look_took         interval not null default '0',
  sessions_since    timestamptz not null default '-infinity', -- locks that were last known to be held before then prove nothing (see session_counts)
  listened_at       timestamptz not null default '-infinity'  -- by a sweep that takes long (see keep_listening)
);

create table alert (
  id          bigint generated always as identity primary key,
  kind        text not null,
  part        text,                -- the part of a service that raised it, and that resolves it
  subject     text not null,
  message     text not null,
  details     json,                -- may hold what a handler said, so what is searched for is not in it
  raised_at   timestamptz not null default now(),
  resolved_at timestamptz
);
create unique index alert_open on alert (kind, subject) where resolved_at is null;

-- One life of the database server: what it knows, it has known all along. Unlogged: a crash recovery, a promotion and a restore of a
-- base backup empty it. The rest tells the row from a copy of it: a clean restart and a cold copy of a stopped server have another
-- start, a copy of the database or a dump that was restored has another file, and a row that was put back has another writer.
create unlogged table epoch_marker (
  is_only      boolean primary key default true check (is_only),
  marker       uuid not null default gen_random_uuid(),
  server_start timestamptz not null default pg_postmaster_start_time(),
  home         text not null,
  writer       xid,
  last_claim   bigint                  -- the ids of this epoch's claims are above it, those of all others are not
);

-- Null where a new epoch has begun and nobody has written anything since, and on a standby, which cannot read an unlogged table. It is short,
-- because every heart's row has it twice: the more beats fit on a page before the page has to be pruned, the less is written. It always has the
-- same length, one that leaves no gap before beat_at.
create function known_epoch() returns text
language plpgsql stable set search_path from current
as $$
begin
  if pg_is_in_recovery() then
    return null;
  end if;
  return (
    select right(lpad(to_hex(hashtextextended(marker::text, 0)), 16, '0'), 14) from epoch_marker
    where server_start = pg_postmaster_start_time() and home = pg_relation_filepath('epoch_marker') and writer = xmin);
end $$;

-- By those that hold and those that ended for another attempt. The record of ended tasks has no index for it, and is left out: its claims are
-- older than these or were drawn in the same epoch, and a jump ahead is longer than any epoch's ids.
create function largest_claim_on_record() returns bigint
language sql stable set search_path from current
as $$ select greatest((select max(claim_id) from running), (select max(claim_id) from attempt), 0) $$;

-- A new epoch begins where the last one's end may have cost the server part of its memory: the last claims, and how far the sequence of
-- their ids had come. So the sequence goes on from the microseconds since 2020. Nobody draws a million ids a second, so it has never come
-- as far as that, whatever was forgotten; and for 285 years ids stay below 2^53, up to which a number in JavaScript is exact.
-- Rows that came by logical replication may have larger ids than this server has drawn: they count as drawn.
-- Whoever sees the marker sees the jump. Whoever begins an epoch at the same time waits for the first. The function runs as the schema's owner,
-- because setval() needs more rights than the rest.
create function begin_epoch() returns void
language plpgsql security definer set search_path from current
as $$
declare
  v_floor bigint := floor(extract(epoch from clock_timestamp() - timestamptz '2020-01-01 00:00:00+00') * 1000000);
  v_last  bigint := greatest((select last_value from claim_id), largest_claim_on_record());
begin
  insert into epoch_marker as m (home) values (pg_relation_filepath('epoch_marker'))
  on conflict (is_only) do update set marker = excluded.marker, server_start = excluded.server_start, home = excluded.home
  where m.server_start <> excluded.server_start or m.home <> excluded.home or m.writer is distinct from m.xmin;
  if not found then
    return;
  end if;
  -- Where the clock was set back, the sequence is ahead of it, and the ids that were forgotten lie just behind the last one that is known.
  -- So the sequence jumps over more ids than a lost piece of memory can hold. The jump is drawn, so that two such jumps differ.
  perform setval('claim_id', greatest(v_floor, v_last + case when v_last < v_floor then 0 else 1000000000 + floor(random() * 1000000000)::bigint end));
  update epoch_marker set writer = xmin, last_claim = (select last_value from claim_id);
end $$;

create function current_epoch() returns text
language plpgsql set search_path from current
as $$
declare
  v_epoch text := known_epoch();
begin
  if v_epoch is null then
    perform begin_epoch();
    v_epoch := known_epoch();
  end if;
  return v_epoch;
end $$;

-- The epoch for a replica that joins. Rows that came by logical replication have claim ids of another server, whose last epoch may have begun
-- after this one: then this server begins a new epoch, above those ids. Asked only here, because it looks through all that runs. As the
-- schema's owner, since it reads how far the sequence has come.
create function joining_epoch() returns text
language plpgsql security definer set search_path from current
as $$
begin
  if largest_claim_on_record() > (select last_value from claim_id) then
    delete from epoch_marker;
  end if;
  return current_epoch();
end $$;

create function session_key(p_replica uuid) returns bigint
language sql stable set search_path from current
as $$ select hashtextextended(current_schema() || '/heart/' || p_replica, 0) $$;

-- The keys of all session locks that are held: looked up once for all hearts.
create function held_sessions() returns bigint[]
language sql volatile
as $$
  select coalesce(array_agg((l.classid::bigint << 32) | l.objid::bigint), '{}') from pg_locks l
  where l.locktype = 'advisory' and l.objsubid = 1 and l.granted
    and l.database = (select oid from pg_database where datname = current_database())
$$;

-- The first beat. A replica that was declared dead never beats again under this id. The heart has just taken its lock and from
-- now on counts anew for how long it is without: so must whoever has seen it free. Its promise is from here on its own: while
-- another session stood in for it, that was a longer one.
create function begin_heart(p_replica uuid, p_interval_ms integer, p_promise_ms integer, p_session_promise_ms integer) returns boolean
language plpgsql set search_path from current
as $$
begin
  perform from replica where id = p_replica and status in ('online', 'draining') for share;
  if not found then
    return false;
  end if;
  insert into heart (replica_id, beat_at, epoch, interval_ms, promise_ms, session_promise_ms, session_key)
  values (p_replica, now(), current_epoch(), p_interval_ms, p_promise_ms, p_session_promise_ms, session_key(p_replica))
  on conflict (replica_id) do update set beat_at = now(), epoch = excluded.epoch, session_free_since = 'infinity',
    session_promise_ms = excluded.session_promise_ms where not heart.is_dead;
  return found;
end $$;

-- One sign of life, stamped by the database. p_has_session: the caller's own session holds the lock. False: refused,
-- the replica was declared dead or is gone.
create function beat(p_replica uuid, p_vitals json, p_has_session boolean, p_remember boolean) returns boolean
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
as $$
declare
  v_epoch text := current_epoch();
begin
  update heart h
  set beat_at = now(), epoch = v_epoch, signs = signs_of(p_vitals),
      session_epoch = case when p_has_session then v_epoch end,
      session_free_since = case when p_has_session then 'infinity' else h.session_free_since end
  from replica r
  where h.replica_id = p_replica and not h.is_dead and r.id = p_replica and r.status in ('online', 'draining');
  if not found then
    return false;
  end if;
  if p_remember then
    begin
      insert into beat_history (replica_id, beat_at, signs) values (p_replica, now(), signs_of(p_vitals));
    exception when disk_full then
      -- The beat itself is written in place and needs no room: nobody may be silent for want of a memory.
      null;
    end;
  end if;
  return true;
end $$;

-- How long a heart has been silent: counted from its last sign of this epoch, but not from before anyone could be heard. A start that
-- is far ahead was stamped before the clock was set back.
-- Volatile, as the clock in it is: declared to be less, it would be called for every heart, and not become part of the query.
create function silent_ms(p_heart heart, p_started_at timestamptz, p_listening listening, p_until timestamptz default clock_timestamp())
returns double precision
language sql volatile
as $$
  select date_part('epoch', p_until - greatest(
    case when p_heart.epoch = p_listening.epoch then p_heart.beat_at end,
    case when p_started_at <= p_listening.swept_at + interval '1 minute' then p_started_at end, p_listening.hearing_since)) * 1000
$$;

-- For those who ask and do not listen themselves: what is known of another epoch is nothing, until somebody listens in this one.
create function listening_now() returns setof listening
language sql stable set search_path from current
as $$
  select l.is_only, coalesce(e.epoch, ''), case when l.epoch = e.epoch then l.hearing_since else clock_timestamp() end,
         l.swept_at, l.swept_by, l.sweep_ms, l.held_since, l.hold_confirmed_at, l.looked_at, l.look_took, l.sessions_since, l.listened_at
  from listening l cross join (select known_epoch() as epoch) e
$$;

-- Whether the end of a heart's session would prove anything: its lock was taken in this epoch, and a beat has said so since the last
-- gap through which the server may not have lived.
create function session_counts(p_heart heart, p_listening listening) returns boolean
language sql immutable
as $$ select coalesce(p_heart.session_epoch = p_listening.epoch and p_heart.beat_at >= p_listening.sessions_since, false) $$;

-- How long reapers have seen a heart's session free. Null: they have not, or it proves nothing. What was noted in another epoch, or before the heart beat
-- without a session, stays on record until the next sweep.
create function session_free_ms(p_heart heart, p_listening listening, p_until timestamptz default clock_timestamp()) returns double precision
language sql immutable
-- Not as text: it must find the other function whatever the search_path is, and become part of the query all the same.
return case when session_counts(p_heart, p_listening) then date_part('epoch', p_until - nullif(p_heart.session_free_since, 'infinity')) * 1000 end;

-- Whether the server is known to have kept its sessions since then: one that began before is still there. A crash ends them all, also
-- where an unlogged table survives it, as it does on some managed servers. Who may see other users' sessions sees the server's own processes too.
create function has_lived_since(p_since timestamptz) returns boolean
language sql volatile
as $$
  select exists (select from pg_stat_activity where backend_start < p_since
                 and backend_type in ('client backend', 'checkpointer', 'background writer', 'walwriter', 'autovacuum launcher'))
$$;

-- How far back a replica stands in the line of those who would sweep, should the one before them fail: 1 is next. The order is that of
-- their ids, in a ring that begins behind whoever swept last. Counted up to p_most, by the index of those who are alive.
create function place_in_line(p_replica uuid, p_swept_by uuid, p_most integer) returns integer
language sql stable set search_path from current set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off set enable_bitmapscan = off
as $$
  select least(1 + count(*), p_most)::integer from (
    (select from replica r
     where r.status in ('online', 'draining') and r.id > p_swept_by
       and r.id < case when p_replica > p_swept_by then p_replica else 'ffffffff-ffff-ffff-ffff-ffffffffffff' end
     limit p_most)
    union all
    (select from replica r where r.status in ('online', 'draining') and p_replica < p_swept_by and r.id < p_replica limit p_most)
  ) before
$$;

-- Whether it is time for this one to sweep: nobody else did just now. If the last sweep lies in the future, the clock was set back since.
create function is_sweep_due(p_listening listening, p_epoch text, p_sweeper uuid, p_min_interval_ms bigint) returns boolean
language sql volatile
as $$
  select not coalesce(
    p_listening.epoch = p_epoch and p_listening.swept_by is distinct from p_sweeper
    and clock_timestamp() - p_listening.swept_at >= '0' and clock_timestamp() - p_listening.swept_at < make_interval(secs => p_min_interval_ms / 1000.0), false)
$$;

-- The first that is found will do.
create function is_a_heart_heard(p_epoch text, p_within interval) returns boolean
language sql volatile set search_path from current
as $$
  select exists (
    select from heart where epoch = p_epoch and beat_at between clock_timestamp() - p_within and clock_timestamp() + interval '5 seconds')
$$;

-- A heart whose row cannot be written, and why.
create type refused_heart as (replica_id uuid, code text, message text);

-- Writes what a sweep has found out about these hearts, whose rows it has locked: that the session is free since now or no longer, or, where the
-- clock was set back, that what is yet to come counts as of now. Where that fails, it is tried with each half of them, so that only the hearts at fault are
-- left out: a trigger of a user's may refuse one row. They are returned. What the server itself is at fault for is raised.
-- A trigger may wait for a lock. It is not waited for long, and after p_until nothing more is tried.
create function mark_hearts(p_hearts uuid[], p_is_set_back boolean, p_until timestamptz) returns refused_heart[]
language plpgsql set search_path from current set lock_timeout = '50ms'
as $$
declare
  v_middle  integer := cardinality(p_hearts) / 2;
  v_code    text;
  v_message text;
begin
  if cardinality(p_hearts) = 0 then
    return '{}';
  end if;
  if clock_timestamp() > p_until then
    return array(select row(h, '55P03', 'There was no time left to write it.')::refused_heart from unnest(p_hearts) h);
  end if;
  begin
    if p_is_set_back then
      update heart
      set beat_at = least(beat_at, clock_timestamp()),
          session_free_since = case when session_free_since < 'infinity' then least(session_free_since, clock_timestamp()) else 'infinity' end
      where replica_id = any (p_hearts);
    else
      update heart set session_free_since = case when session_free_since = 'infinity' then clock_timestamp() else 'infinity' end
      where replica_id = any (p_hearts);
    end if;
    return '{}';
  exception when others then
    if sqlstate ~ '^(08|25|40|53|57|58)' then
      raise;
    end if;
    v_code := sqlstate;
    v_message := left(sqlerrm, 200);
  end;
  if v_middle = 0 then
    return array[row(p_hearts[1], v_code, v_message)::refused_heart];
  end if;
  return mark_hearts(p_hearts[: v_middle], p_is_set_back, p_until) || mark_hearts(p_hearts[v_middle + 1 :], p_is_set_back, p_until);
end $$;

-- One reaper at a time sweeps. Returns whether that is this one (no: another is at it, or was just now), who did it
-- before and how long ago that was, whether recovery is held, and, where it is another, this one's place in line. To be told
-- that it was another costs a few reads, because all replicas ask, and one sweeps. A listener that is no replica (p_is_replica) stands last.
-- Notes since when hearts can be heard: anew in another epoch, and after any gap in which nobody listened or no
-- heart at all was heard. A listener without a heart of its own needs none for that: the row that it writes here shows that signs can be written.
-- Whoever stands still in the middle of this, or waits for somebody who does, must not keep the
-- others from sweeping: it waits for no heart's row, not long for its own, and has nothing to send that could fill a
-- connection that nobody reads. For the same reason it names only some of the hearts that it could not write (refused), and says how many there are.
create function begin_sweep(p_sweeper uuid, p_min_interval_ms bigint, p_gap_ms bigint, p_places integer, p_is_replica boolean)
returns table (is_ours boolean, swept_by uuid, swept_ago_ms double precision, is_held boolean, place integer,
               refused json, refused_count integer)
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
#variable_conflict use_column
declare
  c_named    constant integer := 20;
  -- A clock that was set back by more has made whatever is known of time worthless. By less, it only makes silences shorter.
  c_set_back constant interval := '5 seconds';
  v_epoch    text := current_epoch();
  v_before   listening;
  v_after    listening;
  v_gap      interval := make_interval(secs => p_gap_ms / 1000.0);
  v_last     timestamptz;
  v_was_away boolean;
  v_held     bigint[];
  v_until    timestamptz;
  v_refused  refused_heart[];
begin
  refused_count := 0;
  select * into v_before from listening;
  is_ours := is_sweep_due(v_before, v_epoch, p_sweeper, p_min_interval_ms) and pg_try_advisory_xact_lock(gate_lock_id('service', 'reaper'));
  if is_ours then
    -- Somebody may have swept between the look and the lock.
    select * into v_before from listening;
    is_ours := is_sweep_due(v_before, v_epoch, p_sweeper, p_min_interval_ms);
  end if;
  swept_by := v_before.swept_by;
  is_held := v_before.held_since is not null;
  swept_ago_ms := extract(epoch from clock_timestamp() - v_before.swept_at) * 1000;
  if not is_ours then
    place := case when p_is_replica then place_in_line(p_sweeper, coalesce(swept_by, '00000000-0000-0000-0000-000000000000'), p_places) else p_places end;
    return next;
    return;
  end if;
  if v_before.swept_at is null then
    insert into listening (epoch, hearing_since, swept_at, swept_by) values (v_epoch, clock_timestamp(), clock_timestamp(), p_sweeper)
    returning * into v_after;
  else
    v_last := greatest(v_before.swept_at, v_before.listened_at);
    v_was_away := clock_timestamp() - v_last > v_gap or v_last - clock_timestamp() > c_set_back;
    update listening
    set epoch = v_epoch, swept_at = clock_timestamp(), swept_by = p_sweeper,
        hearing_since = case
          when epoch <> v_epoch or v_was_away or p_is_replica and not is_a_heart_heard(v_epoch, v_gap) then clock_timestamp() else least(hearing_since, clock_timestamp()) end,
        sessions_since = case
          when v_was_away and not has_lived_since(v_last) then clock_timestamp() else least(sessions_since, clock_timestamp()) end,
        held_since = case when held_since > clock_timestamp() then clock_timestamp() else held_since end,
        listened_at = least(listened_at, clock_timestamp())
    returning * into v_after;
  end if;
  -- As it is now: somebody may have waited for that row with us, and raised an alert meanwhile.
  swept_ago_ms := extract(epoch from clock_timestamp() - v_before.swept_at) * 1000;

  -- A free lock is evidence only where it would prove something, and only from when it was first seen free. A row that is
  -- locked is being beaten or judged, and is seen the next time. The keys are hashed: each heart is not compared with all of them.
  v_held := held_sessions();
  v_until := clock_timestamp() + interval '2 seconds';
  v_refused := mark_hearts(array(
    select x.replica_id from heart x join replica r on r.id = x.replica_id
    where r.status in ('online', 'draining')
      and (x.session_free_since < 'infinity') <> (session_counts(x, v_after) and x.session_key not in (select unnest(v_held)))
    for update of x skip locked), false, v_until);

  -- The clock was set back: what is yet to come counts as of now, since it would be heard until the clock has come that far again.
  if v_before.swept_at > clock_timestamp() then
    v_refused := v_refused || mark_hearts(array(
      select x.replica_id from heart x join replica r on r.id = x.replica_id
      where r.status in ('online', 'draining')
        and (x.beat_at > clock_timestamp() or x.session_free_since > clock_timestamp() and x.session_free_since < 'infinity')
      for update of x skip locked), true, v_until);
  end if;
  if cardinality(v_refused) > 0 then
    with each as (select distinct on (replica_id) * from unnest(v_refused))
    select count(*), json_agg(json_build_object('replicaId', replica_id, 'code', code, 'message', message)) filter (where n <= c_named)
    into refused_count, refused from (select *, row_number() over (order by replica_id) as n from each) e;
  end if;
  return next;
end $$;

-- While a sweep takes long, its process says that it is there: the time that a sweep takes is no gap in which nobody listened. It must
-- say so in time. A process that was paused for longer than the gap comes too late, and the next sweep finds the gap. It is also one where no
-- heart at all was heard. Verdicts and turns go by when a sweep began, as before.
create function keep_listening(p_gap_ms bigint, p_is_replica boolean) returns void
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_gap interval := make_interval(secs => p_gap_ms / 1000.0);
begin
  if not p_is_replica or is_a_heart_heard(known_epoch(), v_gap) then
    update listening set listened_at = clock_timestamp()
    where epoch = known_epoch() and clock_timestamp() - greatest(swept_at, listened_at) between '0' and v_gap;
  end if;
end $$;

-- How long it took. Not waited for long either, and so below: the row is everybody's.
create function note_sweep(p_ms double precision) returns void
language sql set search_path from current set lock_timeout = '500ms'
as $$ update listening set sweep_ms = p_ms $$;

-- A hold on recovery, remembered for whoever is the reaper then.
create function begin_hold() returns table (held_for_ms double precision, is_confirmed boolean)
language sql set search_path from current set lock_timeout = '500ms'
as $$
  update listening set held_since = coalesce(held_since, clock_timestamp())
  returning (extract(epoch from clock_timestamp() - held_since) * 1000)::double precision, hold_confirmed_at is not null
$$;

create function end_hold() returns setof boolean
language sql set search_path from current set lock_timeout = '500ms'
as $$ update listening set held_since = null, hold_confirmed_at = null where held_since is not null returning true $$;

-- Those who should be alive and are not surely well: not heard for that long, or, where sessions count, without their session. Mostly there are none, and
-- nothing is sent. With them, how many machines there are, and whether their own has somebody who is well.
-- As it was when this sweep began, like the verdicts below: its process may have been stopped since, and those it would judge with it.
-- Where the clock was set back since it began, it knows nothing, and neither do they: beats are stamped by the new time.
create function doubtful_hearts(p_silent_ms double precision, p_do_sessions_count boolean default true)
returns table (replica_id uuid, machine_id text, hostname text, status text, silent_for_ms double precision,
               session_free_for_ms double precision, promise_ms integer, session_promise_ms integer, interval_ms integer, vitals json,
               machines integer, is_machine_well boolean)
language plpgsql stable set search_path from current
as $$
#variable_conflict use_column
declare
  v_listening listening;
begin
  select * into v_listening from listening;
  if v_listening.swept_at > clock_timestamp() or not exists (
    select from heart h join replica r on r.id = h.replica_id
    where r.status in ('online', 'draining')
      and (p_do_sessions_count and session_free_ms(h, v_listening, v_listening.swept_at) is not null
           or silent_ms(h, r.started_at, v_listening, v_listening.swept_at) >= p_silent_ms)) then
    return;
  end if;
  return query
    with fleet as materialized (
      select h.replica_id, r.machine_id, coalesce(r.machine_id, r.id::text) as machine, r.hostname, r.status, s.silent_ms,
             s.session_free_ms, h.promise_ms, h.session_promise_ms,
             h.interval_ms, h.signs, s.session_free_ms is null and s.silent_ms < p_silent_ms as is_well
      from heart h join replica r on r.id = h.replica_id
      cross join lateral (
        select silent_ms(h, r.started_at, v_listening, v_listening.swept_at) as silent_ms,
               case when p_do_sessions_count then session_free_ms(h, v_listening, v_listening.swept_at) end as session_free_ms offset 0) s
      where r.status in ('online', 'draining')
    ), company as (
      select f.machine, bool_or(f.is_well) as is_well from fleet f group by f.machine
    )
    select f.replica_id, f.machine_id, f.hostname, f.status, f.silent_ms, f.session_free_ms, f.promise_ms, f.session_promise_ms, f.interval_ms,
           vitals_of(f.signs), (select count(*)::integer from company), c.is_well
    from fleet f join company c on c.machine = f.machine
    where not f.is_well;
end $$;

-- The verdict: one conditional write that looks at the evidence again. The heart's row is locked and marked, so a beat that
-- comes at the same time either comes first, and the replica lives, or is refused. Everybody locks a replica before its heart.
-- Not waited for long: somebody who stands still with one replica's row must not hold up the verdicts on the others.
create function declare_dead(p_replica uuid, p_because text, p_min_ms double precision, p_death json) returns boolean
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_heart     heart;
  v_replica   replica;
  v_listening listening;
begin
  select * into v_replica from replica where id = p_replica and status in ('online', 'draining') for update;
  select * into v_heart from heart where replica_id = p_replica for update;
  select * into v_listening from listening;
  if v_heart.replica_id is null or v_replica.id is null or v_listening.epoch <> current_epoch() or v_listening.swept_at > clock_timestamp() then
    return false;
  end if;
  if p_because = 'session-lost' then
    if not session_counts(v_heart, v_listening) or v_heart.session_key = any (held_sessions())
       or not coalesce(v_listening.swept_at - nullif(v_heart.session_free_since, 'infinity') > make_interval(secs => p_min_ms / 1000.0), false) then
      return false;
    end if;
  elsif silent_ms(v_heart, v_replica.started_at, v_listening, v_listening.swept_at) <= p_min_ms then
    return false;
  end if;
  update heart set is_dead = true where replica_id = p_replica;
  update replica set status = 'dead', died_at = clock_timestamp(), death = p_death where id = p_replica;
  return true;
end $$;

-- The same on first-hand evidence: whoever started the process has seen it end. Not while its session is held: a moment
-- later it has ended too, and where it has not, a second copy of the process may beat on under this id. Exit codes of Windows have 32 bits
-- without a sign. Not waited for long either: whoever started the process may have others to report.
create function declare_exited(p_replica uuid, p_exit_code bigint, p_signal text, p_group json default null) returns table (verdict text, death json)
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_heart   heart;
  v_replica replica;
begin
  select * into v_replica from replica where id = p_replica and status in ('online', 'draining') for update;
  select * into v_heart from heart where replica_id = p_replica for update;
  if v_replica.id is null then
    return query select 'not-alive', null::json;
    return;
  end if;
  if session_key(p_replica) = any (held_sessions()) then
    return query select 'session-held', null::json;
    return;
  end if;
  update heart set is_dead = true where replica_id = p_replica;
  update replica set status = 'dead', died_at = clock_timestamp(), death = json_build_object(
      'replicaId', id, 'machineId', machine_id, 'hostname', hostname, 'because', 'exited',
      'exitCode', p_exit_code, 'signal', p_signal, 'wasDraining', status = 'draining', 'vitals', vitals_of(v_heart.signs),
      'group', p_group)
  where id = p_replica;
  return query select 'dead', replica.death from replica where id = p_replica;
end $$;

-- A verdict on what it has only claimed, which is not its death: on the evidence of this moment, and no beat comes in between.
-- In one statement, so that whoever stands still in the middle of it keeps nobody's heart from beating. Where it is asked for some claims
-- after others, because one of all is refused, each time the evidence counts anew.
create function release_while_silent(p_replica uuid, p_min_ms double precision, p_claims bigint[], p_tasks uuid[], out done text[], out locked text[])
language plpgsql set search_path from current set lock_timeout = '500ms'
as $$
declare
  v_heart     heart;
  v_replica   replica;
  v_listening listening;
begin
  done := '{}';
  locked := '{}';
  select * into v_heart from heart where replica_id = p_replica for update;
  select * into v_replica from replica where id = p_replica;
  select * into v_listening from listening;
  if v_listening.epoch <> current_epoch() or v_listening.swept_at > clock_timestamp()
     or coalesce(silent_ms(v_heart, v_replica.started_at, v_listening, v_listening.swept_at) <= p_min_ms, true)
     or v_heart.replica_id is null then
    return;
  end if;
  select r.done, r.locked into done, locked from release_absent(p_replica, p_claims, p_tasks) r;
end $$;

-- The owners of unfinished tasks that are not alive: dead, gone, or not on record at all. Looked for where they would be in the
-- index: below the first who is alive, between each and the next, above the last. One probe for each of these, however many
-- tasks there are, and where it finds one, on to the next until that is alive again.
--
-- While somebody has an old snapshot, though, the index keeps an entry for every task that has gone through since, and the probes
-- walk over those of all owners that have left. So that this does not become all that the server does, it is done for a twentieth
-- of the time at the most, by all reapers together. It is done at once where something was found the last time, or somebody was
-- declared dead of late (a verdict takes a moment to commit); and always where it takes less than 20 ms: then nothing is written,
-- so that a sweep need not wait for the disk.
create function absent_owners() returns table (replica_id uuid, status text)
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set lock_timeout = '500ms'
as $$
declare
  v_started timestamptz := clock_timestamp();
  v_looked  timestamptz;
begin
  if exists (
    select from listening l
    where v_started between l.looked_at and l.looked_at + 20 * l.look_took
      and not exists (select from replica r where r.status = 'dead' and r.died_at > l.looked_at - interval '5 seconds'))
  then
    return;
  end if;
  return query
    with recursive living (id, next_id) as materialized (
      select r.id, lead(r.id) over (order by r.id) from replica r where r.status in ('online', 'draining')
    ), owner (id) as (
      (
        (select u.replica_id from running u order by u.replica_id limit 1)
        union all
        select first.id from living l cross join lateral (
          select u.replica_id as id from running u where u.replica_id > l.id and u.replica_id < l.next_id order by u.replica_id limit 1) first
        union all
        (select u.replica_id from running u
         where u.replica_id > (select l.id from living l where l.next_id is null) order by u.replica_id limit 1)
      )
      union -- the next may be one that was found from where it is
      select (select u.replica_id from running u where u.replica_id > o.id order by u.replica_id limit 1)
      from owner o where not exists (select from replica r where r.id = o.id and r.status in ('online', 'draining'))
    )
    select o.id, coalesce(r.status, 'missing') from owner o left join replica r on r.id = o.id
    where o.id is not null and (r.id is null or r.status in ('dead', 'offline'));
  v_looked := case when found or clock_timestamp() - v_started < interval '20 milliseconds' then '-infinity' else clock_timestamp() end;
  update listening set looked_at = v_looked, look_took = clock_timestamp() - v_started where looked_at <> v_looked;
end $$;

-- One line per task and role, as if each task had a heartbeat of its own, and without a write per task.
create view heartbeats as
select r.claim_id as id, r.task_id, r.replica_id as sender_id,
       case r.state when 'claimed' then 'claimer' else 'runner' end as role,
       h.beat_at as sent_at, x.hostname, x.pid
from running r
left join heart h on h.replica_id = r.replica_id
left join replica x on x.id = r.replica_id;

-- Tasks that ended because their worker died, or whose end was forgotten, may have had effects: somebody should look. A task that was
-- run again and crashed again ended after its review, and counts anew.
create table review (
  task_id     uuid primary key,
  reviewed_at timestamptz not null default now(),
  note        text
);
create index ended_crashed on ended (ended_at) where state = 'failed' and error_code in ('WORKER_CRASHED', 'END_FORGOTTEN');

-- The tables, and the types that functions name. Functions, views and triggers are in routines/, one file each.
--
-- Which state a task is in is a matter of which table its row is in, so the sets that are searched
-- all the time stay small however many tasks have ended, and the large ones are only appended to:
--
--   task     what was asked for; inserted once, and changed only by replace_pending
--   ready    pending: may be claimed from run_at on
--   parked   pending: waiting for its exclusive key
--   running  claimed or running: owned by one replica under one claim id
--   ended    completed, failed, cancelled or expired: appended
--   attempt  attempts that did not end their task
--   late     outcomes that were refused because their claim had been lost
--
-- In the tables that every task goes through, columns of one width come first, the widest before the others: so nothing is lost
-- to alignment.
--
-- Unqualified names: the migrator sets the search_path to the chosen schema, and every function
-- keeps that path (`set search_path from current`).

-- Grows for ever: no id is issued twice, whatever the server forgets (see begin_epoch).
create sequence claim_id as bigint;

-- Whether so many starts in that time can be counted: a start costs a microsecond of it at the least, which is the finest that a
-- time stamp tells apart. One row that cannot be counted would make every claim that meets it fail.
create function is_countable(p_limit integer, p_per_ms bigint) returns boolean
language sql immutable
as $$ select coalesce(p_limit between 1 and 1000000 and p_per_ms between 1 and 31536000000 and p_limit <= p_per_ms * 1000, false) $$;

create table task (
  id              uuid primary key,
  name            text not null,
  queue           text not null,
  priority        smallint not null,
  run_at          timestamptz not null,
  created_at      timestamptz not null default now(),
  expires_at      timestamptz,
  unique_key      text,
  exclusive_key   text,
  -- One row with a limit of zero would make every claim of its lane fail.
  exclusive_limit smallint check (exclusive_limit > 0),
  rate_key        text,
  rate_limit      integer,
  rate_per_ms     bigint,
  input           json not null,
  metadata        json,
  constraint task_rate_check check (
    rate_key is null and rate_limit is null and rate_per_ms is null or rate_key is not null and is_countable(rate_limit, rate_per_ms))
);

-- By one index, since a task that is put in adds to each: its key is the order of claims. A row with its input waits where its task says
-- (see waits_at), and is found by that place; the few others, by their task's id.
create table ready (
  task_id    uuid not null,
  run_at     timestamptz not null,
  attempt    integer not null default 1,
  failures   integer not null default 0,
  crashes    integer not null default 0,
  priority   smallint not null,
  gated      boolean not null default false,
  queue      text not null,
  name       text not null,
  expires_at timestamptz,
  -- The task's, where a claim would look into `task` for nothing else: it is small, due at once, not gated, has no metadata, and
  -- waits for its first attempt. Then run_at is when it was made.
  input      json,
  constraint ready_order primary key (queue, priority, run_at, task_id)
);
create unique index ready_task on ready (task_id) where input is null;
create index ready_expiry on ready (expires_at) where expires_at is not null;

create table parked (
  task_id       uuid primary key,
  queue         text not null,
  priority      smallint not null,
  run_at        timestamptz not null,
  name          text not null,
  attempt       integer not null,
  failures      integer not null,
  crashes       integer not null,
  expires_at    timestamptz,
  exclusive_key text not null
) with (autovacuum_vacuum_scale_factor = 0.02); -- whoever lets the first in line go walks over the dead entries of those before it
create index parked_order on parked (exclusive_key, queue, priority, run_at, task_id);
create index parked_expiry on parked (expires_at) where expires_at is not null;

-- In the order of owners and claims, by one index, since every claim adds to each and every end leaves a hole in each. Whoever
-- knows a claim and not its owner goes by owners().
create table running (
  claim_id            bigint not null,
  task_id             uuid not null unique,
  replica_id          uuid not null,
  run_at              timestamptz not null,
  claimed_at          timestamptz not null,
  started_at          timestamptz,
  attempt             integer not null,
  failures            integer not null,
  crashes             integer not null,
  priority            smallint not null,
  gated               boolean not null,
  limited             boolean not null default false,
  state               text not null check (state in ('claimed', 'running')),
  name                text not null,
  queue               text not null,
  exclusive_key       text,
  expires_at          timestamptz,
  cancel_requested_at timestamptz,
  cancel_force_at     timestamptz,
  cancel_reason       text,
  -- Told with the beats too: a task that is over sooner never gets one on record, and needs none.
  runner_id           uuid,
  primary key (replica_id, claim_id)
);
create index running_exclusive on running (exclusive_key) where exclusive_key is not null;
create index running_limited on running (queue) where limited;
create index running_cancelled on running (cancel_force_at) where cancel_force_at is not null;

create table ended (
  task_id    uuid primary key,
  claim_id   bigint,
  replica_id uuid,
  claimed_at timestamptz,
  started_at timestamptz,
  ended_at   timestamptz not null,
  attempt    integer not null,
  failures   integer not null,
  crashes    integer not null,
  state      text not null check (state in ('completed', 'failed', 'cancelled', 'expired')),
  -- The error's code, because what is searched for is a column. The JSON of users may hold what PostgreSQL can store but not take apart,
  -- such as \u0000: an operator on it would fail the whole statement.
  error_code text,
  result     json,
  error      json
);
create index ended_trouble on ended (task_id) where state <> 'completed';
create index ended_crashed on ended (ended_at) where state = 'failed' and error_code in ('WORKER_CRASHED', 'END_FORGOTTEN');
create index ended_poisoned on ended (ended_at) where state = 'failed' and error_code = 'POISONED';

create table attempt (
  claim_id   bigint primary key,
  task_id    uuid not null,
  replica_id uuid not null,
  attempt    integer not null,
  claimed_at timestamptz not null,
  started_at timestamptz,
  ended_at   timestamptz not null,
  outcome    text not null check (outcome in ('completed', 'failed', 'cancelled', 'expired', 'snoozed', 'crashed', 'aborted', 'taken')),
  result     json,
  error      json
);
create index attempt_task on attempt (task_id);

create table late (
  id         bigint generated always as identity primary key,
  claim_id   bigint not null,
  task_id    uuid not null,
  replica_id uuid not null,
  outcome    text not null,
  result     json,
  error      json,
  arrived_at timestamptz not null default now()
);
create index late_task on late (task_id);

-- A queue's settings, for those that have any: a queue without a row here has none, and is used all the same.
create table queue (
  name            text primary key,
  paused          boolean not null default false,
  concurrency     integer check (concurrency >= 0),
  rate_limit      integer,
  rate_per_ms     bigint,
  changed_at      timestamptz not null default now(),
  -- Why a queue was paused that nobody has paused: nothing can be claimed from it. Null once its settings are changed or it is resumed.
  trouble         text,
  constraint queue_rate_check check (rate_limit is null and rate_per_ms is null or is_countable(rate_limit, rate_per_ms))
);

-- Every queue and priority that is in use: a claim searches lane by lane, so that it can start each search where the last one
-- ended instead of walking over what is already claimed. Several rows may name the same lane, which is harmless and tidied
-- up later: so nobody who enqueues waits for another's transaction. Upkeep takes out lanes that are empty (see retire_lanes).
-- The ids are drawn: they are the order in which the lanes of a priority are visited.
create table lane (
  id         uuid primary key default gen_random_uuid(),
  queue      text not null,
  priority   smallint not null,
  is_leaving boolean not null default false
) with (autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
create index lane_place on lane (queue, priority);
create index lane_order on lane (priority, id);

-- The last task with this unique key. Whether it still counts is judged when the next one arrives, so ending a
-- task costs nothing here.
create table unique_hold (
  name         text not null,
  key          text not null,
  task_id      uuid not null,
  counts_until timestamptz,  -- the longest `uniqueFor` that was asked for it; null: for as long as the task is on record
  -- Of a task that was purged before that: when it was enqueued, and the state in which it ended. Null while it is on record.
  created_at   timestamptz,
  ended_as     text,
  primary key (name, key)
);
create index unique_hold_task on unique_hold (task_id);
create index unique_hold_purged on unique_hold (counts_until) where ended_as is not null;

-- One row per rate-limited thing. `spent_until`: when what was already spent will have been earned back (GCRA). `spent_rest`: what was
-- spent beyond that and is less than a microsecond, in as many parts of one as the limit counts; so a budget is counted exactly.
-- `deferred_until`: the last moment to which a task without budget was put off, so that the next goes behind it.
create table rate (
  key            text primary key,
  spent_until    timestamptz not null,
  spent_rest     integer not null default 0,
  deferred_until timestamptz not null
);

-- What a task's definition says, as the last worker that started has it. What statements need is a column of its own. `settings` holds all of
-- it; SQL never takes it apart.
create table definition (
  name             text primary key,
  queue            text not null default 'default',
  priority         smallint not null default 0,
  run_in           text not null default 'inline',
  stalled_after_ms bigint check (stalled_after_ms > 0),
  settings         json not null,
  changed_at       timestamptz not null default now(),
  seen_at          timestamptz not null default now()   -- when a worker last had it, to the day
);

create table replica (
  id         uuid primary key,
  hostname   text not null,
  pid        integer not null,
  version    text not null,
  started_at timestamptz not null default now(),
  seen_at    timestamptz not null default now(),
  status     text not null default 'online' check (status in ('online', 'draining', 'offline', 'dead')),
  tasks      text[] not null,
  stopped_by bigint[], -- claims on tasks that have told it to stop: it drains on account of them, and of nobody else
  versions   text[],   -- for each of these tasks, a mark of its definition's settings: the same settings have the same mark
  queues     text[],
  machine_id text,
  died_at    timestamptz,
  death      json,
  recovery   json,     -- the settings by which it judges, when it is the one that sweeps
  abort_grace_ms bigint, -- how long it lets a handler ignore its signal: for those who explain its tasks
  came_back_at  timestamptz,  -- it had been given up and was not dead: it is here again, under another id
  came_back_how text,         -- fenced: it had stopped its own work; refused: it heard of its death from a beat
  exit_call     json,         -- a task that had ended has called process.exit(): which one
  changed_in xid8 not null default pg_current_xact_id() -- the transaction that has last changed what followers are told (see replica_changes)
);
create index replica_changed_in on replica (changed_in);
-- Those that should be alive, in order: sweeps are not to pay for everyone who has left or died since the last purge.
create index replica_alive on replica (id) where status in ('online', 'draining');

-- Two notice boards that lose nothing of value in a crash, hence unlogged. `bell`: a worker found this queue
-- empty and wants to be told. `waiter`: somebody wants to be told how this task ends. Their ids are drawn: a sequence of an unlogged
-- table cannot be read any more on a standby that is promoted before its first restart point.
create unlogged table bell (
  queue text primary key,
  armed boolean not null
);

create unlogged table waiter (
  id       uuid primary key default gen_random_uuid(),
  task_id  uuid not null,
  since    timestamptz not null default now()
);
create index waiter_task on waiter (task_id);

-- Following: what happens to a task or a replica, told to other processes. None of it is the truth of anything: who follows reads the present
-- state too (see ARCHITECTURE.md, "Events across processes"). Hence unlogged. A topic is `task ID`, `replica ID`, or `replica *` for all of them.

-- A process that follows, for as long as its lease. A process that is killed renews it no more.
create unlogged table follower (
  id    uuid primary key,
  until timestamptz not null
) with (fillfactor = 50);

create unlogged table followed (
  topic    text not null,
  follower uuid not null,
  since    xid8 not null default pg_current_xact_id(), -- whoever sees this transaction has been told everything from then on
  left_at  timestamptz,                                -- nobody in that process follows it any more; kept for a while, for those who come back
  primary key (topic, follower)
);
create index followed_follower on followed (follower);

-- Written only about what somebody follows, and kept for minutes (see tidy_happenings). Found by transaction: a reader asks for what its last
-- snapshot could not see, so that nothing is missed or told twice, whenever a transaction commits. The ids are the order in which things
-- happened to one task, since they are drawn while its row is locked. Their sequence is logged, like the tables' that are.
create sequence happening_id as bigint;
create unlogged table happening (
  id       bigint not null default nextval('happening_id'),
  xact     xid8 not null default pg_current_xact_id(),
  at       timestamptz not null default clock_timestamp(),
  topic    text not null,
  kind     text not null,
  claim_id bigint,
  details  json,
  primary key (xact, id)
);

-- What could be seen every few seconds. By these it is known which happenings are old, however long their transactions took to commit. The floor is
-- the last of those up to which happenings were removed: who has not read as far has missed some.
create unlogged table happening_mark (
  marked_at timestamptz primary key default clock_timestamp(),
  seen      pg_snapshot not null default pg_current_snapshot(),
  last_id   bigint not null,
  is_floor  boolean not null default false
);

-- What must be true when a transaction commits (see commit_check_at_commit): by the transaction, since that is how it is read.
create unlogged table commit_check (
  xact     xid8 not null default pg_current_xact_id(),
  claim_id bigint not null,
  task_id  uuid not null,
  outcome  json,                                            -- null: the claim must hold, and goes on
  asked_at timestamptz not null default statement_timestamp(),
  primary key (xact, claim_id)
);

-- Long values are compressed in a tenth of the time, to the same size, where the server was built with LZ4, as most are.
do $$
begin
  alter table task alter input set compression lz4, alter metadata set compression lz4;
  alter table ended alter result set compression lz4, alter error set compression lz4;
  alter table attempt alter result set compression lz4, alter error set compression lz4;
  alter table late alter result set compression lz4, alter error set compression lz4;
exception when feature_not_supported then
  null;
end $$;

-- The record is searched for what is too old now and then, once for all replicas, and not by each of them with every upkeep. A replica that
-- keeps less than the last one that searched does not wait: it searches at once.
create table upkeep (
  is_only       boolean primary key default true check (is_only),
  purged_at     timestamptz not null,
  max_age_ms    bigint,
  max_count     bigint,
  surveyed_at   timestamptz not null default '-infinity', -- see survey_ended
  surveyed_file oid,
  lanes_after   xid8, -- see retire_lanes
  lanes_next_at timestamptz not null default '-infinity'
);
insert into upkeep (purged_at) values ('-infinity');

-- Hearts: one narrow row per process, updated in place, whatever the number of tasks.

create table machine (
  id            text primary key,
  hostname      text not null,
  first_seen_at timestamptz not null default now(),
  joined_at     timestamptz not null default now()   -- when a replica of it last joined
);

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

create table beat_history (
  replica_id uuid not null,
  beat_at    timestamptz not null,
  signs      integer[]
);
create index beat_history_replica on beat_history (replica_id, beat_at);
-- Two beats may have the same time, so there is no key; whoever replicates these tables must be able to follow a purge all the same.
alter table beat_history replica identity full;

-- What the reapers know together: since when hearts could be heard, and when the last sweep was.
create table listening (
  is_only        boolean primary key default true check (is_only),
  epoch          text not null,
  hearing_since  timestamptz not null,
  swept_at       timestamptz not null,
  swept_by       uuid,
  looked_at      timestamptz not null default '-infinity', -- for owners that are not alive (see absent_owners)
  look_took      interval not null default '0',
  sessions_since timestamptz not null default '-infinity', -- locks that were last known to be held before then prove nothing (see session_counts)
  listened_at    timestamptz not null default '-infinity'  -- by a sweep that takes long (see keep_listening)
);

-- Sources of silence whose deaths are held back for a while, because too many came at once. A row for each, for as long as its hold lasts.
create table hold (
  source       text primary key, -- 'hearts', or another source by its name
  counted      text not null,    -- what fell silent together, in the plural: 'machines'
  since        timestamptz not null,
  confirmed_at timestamptz,      -- by somebody who says that they are dead indeed
  renewed_at   timestamptz not null, -- by a sweep of the source
  kept_for     interval not null -- from then on. Without another sweep it was left behind, and holds nothing (see hold_lasts)
);

-- What runs once in the cluster, and who runs it: a row for each service. It is nobody's before it was ever taken.
create table turn (
  service    text primary key,
  token      uuid,             -- names this turn: whoever ends it, or asks for more time, says it
  epoch      text not null,
  taken_at   timestamptz,
  taken_by   uuid,             -- a replica, or a process without a worker
  taken_on   text,             -- its host, for people
  every_ms   bigint not null,  -- the interval at which its taker runs it
  held_until timestamptz not null default '-infinity', -- until then nobody else takes it; -infinity: it was given back
  ended_at   timestamptz,      -- the last run that ended, how long it took, and what it failed with
  took_ms    double precision,
  error      text,
  failures   integer not null default 0,               -- in a row; 1000 stands for more
  failing_since timestamptz                            -- when the first of them began
) with (fillfactor = 50);

-- One row is one episode of what its subject suffers: from raised_at to resolved_at. Earlier rows of a subject are its history.
create table alert (
  id             bigint generated always as identity primary key,
  kind           text not null,       -- one of src/alert-kinds.ts
  part           text,                -- by which alerts are found again: a part of a service, a claim, a replica
  subject        text not null,
  message        text not null,
  details        json,                -- may hold what a handler said, so what is searched for is not in it
  raised_at      timestamptz not null default now(),
  last_raised_at timestamptz not null default now(),
  times          integer not null default 1,  -- how often it was raised; while it is open, at most twice a minute
  resolved_at    timestamptz
);
create unique index alert_open on alert (kind, subject) where resolved_at is null;

-- Where changes of alerts are delivered to. A process that has such a channel says so now and then.
create table alert_channel (
  name    text primary key,
  seen_at timestamptz not null default now()
);

-- A change of an alert on its way to a channel: written with the change (tell_of_alert), so that it is delivered whoever dies just after.
create table alert_delivery (
  alert_id     bigint not null,
  change       text not null check (change in ('raised', 'resolved')),
  channel      text not null,
  tries        integer not null default 0,
  next_try_at  timestamptz not null default now(),  -- while a process has it: until when it has
  delivered_at timestamptz,
  last_error   text,
  created_at   timestamptz not null default now(),
  primary key (alert_id, change, channel)
);
create index alert_delivery_due on alert_delivery (channel, next_try_at) where delivered_at is null;

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

-- Tasks that ended because their worker died, or whose end was forgotten, may have had effects: somebody should look. A task that was
-- run again and crashed again ended after its review, and counts anew.
create table review (
  task_id     uuid primary key,
  reviewed_at timestamptz not null default now(),
  note        text
);

-- What a running attempt says of itself (its phase, its progress, its last log lines), and what is seen of a main thread
-- that has stopped turning its loop. Beside `running`, so that the rows every claim and every end goes through stay narrow.

-- One row per attempt that has reported anything, kept for as long as its task is on record.
create table progress (
  claim_id   bigint primary key,
  task_id    uuid not null,
  phase      text,
  details    json,
  share      double precision check (share between 0 and 1),
  done       double precision,
  total      double precision,
  note       text,
  changed_at timestamptz,        -- the last sign of getting on: another phase, another share; null: it has only logged
  log        json,               -- its last log lines, oldest first
  logged_at  timestamptz
) with (fillfactor = 60);
create index progress_task on progress (task_id);

-- Threads that stopped turning their loop: one row per blockage, of the replica's main thread, as its own heart sees it, or of a runner.
create table blocked_loop (
  id         bigint generated always as identity primary key,
  replica_id uuid not null,
  runner_id  uuid,                        -- null: the replica's main thread
  began_at   timestamptz not null,
  seen_at    timestamptz not null,
  blocked_ms double precision not null,   -- when it was last seen
  ended_at   timestamptz,                 -- the loop turned again; null: not yet, or never
  stack      text,                        -- where the thread was, as of the last look that got an answer
  paused_ms  double precision,            -- how long it took to answer
  tasks      json not null                -- what was running there: the first twenty
);
create index blocked_loop_replica on blocked_loop (replica_id, id);

-- Deaths: why a process is thought to have died, which of its tasks are suspected of it, how often machines fail.

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
  suspects    integer not null,  -- how many tasks may have caused it
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

-- Runners: threads and processes in which a replica runs tasks.

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

-- What leaves the record of ended tasks, and how it is found.
--
-- `ended` is appended to, and the space that a purge has freed is used again. So tasks that ended at about the same time lie together, and the
-- oldest are found by the pages in which they lie. This table has one row for each span of 32 pages, with a time before which nothing in the span
-- ended. An index of ended_at would find them too, and would be written with every task that ends: a twelfth of the WAL of a claim
-- and its end. A BRIN index would not be, but it never forgets the old times of pages that are used again, and in the end it leads to the whole table.
-- (test/database/oldest-ended.test.ts)
create table ended_span (
  span   bigint primary key,    -- pages 32 * span to 32 * span + 31
  oldest timestamptz not null   -- nothing that lies there ended before
);
create index ended_span_oldest on ended_span (oldest);

-- Ended tasks that cannot be deleted, because a foreign key or a trigger of a user's own refuses it. Each is left alone for a while, the longer the more
-- often it was refused, so that such tasks do not fill the batches. See src/upkeep/refused-purges.ts.
create table not_purged (
  task_id     uuid primary key,
  times       integer not null,
  rests_until timestamptz not null,
  told_as     text not null -- the subject of its alert
);

-- Types that functions name. What they consist of cannot be changed: a function that needs more gets a new type.

-- A claim; or, with a state of its own:
--   lane   no claim: those before it are of this lane, and the next search of it begins behind the last of them
--   seen   no claim: everything that was due by then has been seen, but for what was committed later than c_lag (see claim_tasks)
--   more   no claim: the search was over before it had seen everything, so much was in the way
--   short  no claim: the next search of this lane goes on behind this task. So much before it waits for what somebody else has locked
--   held   no claim: something was passed by that somebody else has locked at this moment. Its queue is named where it was waited for in vain
--   unarmed  no claim: nobody tells this worker of new tasks, since the bells could not be armed
--   ended  no claim: the ends that were asked for in the same statement, where not all went as asked (its input, see end_claims)
-- What is nearly always the same is left out, since it would be written, sent and read with every row: a claim without a state
-- is running, without a queue and a priority it has those of its lane, and attempt, failures and crashes are 1, 0 and 0.
create type claim_row as (
  claim_id bigint, task_id uuid, state text, name text, attempt integer, failures integer, crashes integer, created_ms bigint,
  input json, metadata json, exclusive_key text, queue text, priority smallint, lane_id uuid, run_at timestamptz
);

-- A heart whose row cannot be written, and why.
create type refused_heart as (replica_id uuid, code text, message text);

-- A claim as it was asked for (see claim_tasks).
create type asked_claim as (
  replica uuid, names text[], queues text[], room integer[], run integer, prefetch integer, reserve integer,
  cursor_lane uuid[], cursor_run_at timestamptz[], cursor_task uuid[], seen timestamptz, last_lane uuid
);

create type bad_row as (place ready, reason text, code text);

-- A queue in which this claim fails, and the rows there that it fails with, while no other row of the queue can be claimed.
create type failing_queue as (name text, bad bad_row[]);

-- The engine's tables and the functions that move a task between them.
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
  versions   text[],            -- for each of these tasks, a mark of its definition's settings: the same settings have the same mark
  queues     text[]
);

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

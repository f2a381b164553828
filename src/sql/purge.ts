/**
 * What leaves the record: one rule for each table, in small batches. A row that is locked stays until the next time. Three things leave
 * elsewhere: ended tasks (purge_ended), lanes (retire_lanes) and old attempts of a task that goes on (end_claims calls trim_attempts).
 * docs/operations.md lists the rules of all tables.
 */
import type { Store } from "../database/database.ts";
import { hasStandingCause } from "./alerts.ts";
import { isBlockageLasting } from "./blocked-loops.ts";

/** How long things stay, by the setting that says so. */
export interface PurgeAges {
  readonly historyAgeMs: number;
  readonly purgeAgeMs: number;
  readonly postMortemAgeMs: number;
}

export interface PurgeRule {
  readonly what: string;
  readonly ageMs: (ages: PurgeAges) => number;
  /** A statement that removes at most $2 rows of those older than $1 ms, and returns how many left. */
  readonly statement: (schema: string) => string;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** A definition that no worker has had for so long belongs to code that is gone. */
const DEFINITION_AGE_MS = 90 * DAY_MS;

const OLD = "now() - make_interval(secs => $1::float8 / 1000)";

export const PURGE_RULES: readonly PurgeRule[] = [
  {
    what: "beats",
    ageMs: (ages) => ages.historyAgeMs,
    statement: (s) => `select ${s}.purge_beats($1, $2) as gone`,
  },
  {
    what: "blocked loops",
    ageMs: (ages) => ages.historyAgeMs,
    statement: (s) => removal(s, "blocked_loop", `x.seen_at < ${OLD} and not (${isBlockageLasting(s, "x")})`),
  },
  {
    // Those that ended, or whose replica is gone.
    what: "runners",
    ageMs: (ages) => ages.historyAgeMs,
    statement: (s) =>
      removal(
        s,
        "runner",
        `coalesce(x.ended_at, x.beat_at) < ${OLD} and (x.ended_at is not null or not exists (
           select from ${s}.replica r where r.id = x.replica_id and r.status in ('online', 'draining')))`,
      ),
  },
  {
    // Those that are gone and own nothing, with their hearts.
    what: "replicas",
    ageMs: (ages) => ages.purgeAgeMs,
    statement: (s) =>
      removal(
        s,
        "replica",
        `x.status in ('offline', 'dead')
         and coalesce((select h.beat_at from ${s}.heart h where h.replica_id = x.id), x.seen_at) < ${OLD}
         and not exists (select from ${s}.running u where u.replica_id = x.id)`,
        `with_hearts as (delete from ${s}.heart h using gone where h.replica_id = gone.id)`,
      ),
  },
  {
    // If a replica joins at this moment, `joined_at` has changed, and PostgreSQL checks the row again.
    what: "machines",
    ageMs: (ages) => ages.purgeAgeMs,
    statement: (s) =>
      removal(
        s,
        "machine",
        `x.joined_at < ${OLD} and not exists (select from ${s}.replica r where r.machine_id = x.id)`,
      ),
  },
  {
    what: "post-mortems",
    ageMs: (ages) => ages.postMortemAgeMs,
    statement: (s) => removal(s, "post_mortem", `x.happened_at < ${OLD}`),
  },
  {
    what: "deaths and silences of machines",
    ageMs: (ages) => ages.postMortemAgeMs,
    statement: (s) => removal(s, "unrest", `x.happened_at < ${OLD}`),
  },
  {
    what: "crashes and whom they made suspects",
    ageMs: (ages) => ages.postMortemAgeMs,
    statement: (s) =>
      removal(
        s,
        "crash",
        `x.happened_at < ${OLD}`,
        `with_suspects as (delete from ${s}.suspicion q using gone where q.replica_id = gone.replica_id)`,
      ),
  },
  {
    // An alert that nobody resolved leaves too, unless its cause stands. A process that still meets its cause raises it again.
    what: "alerts",
    ageMs: (ages) => ages.postMortemAgeMs,
    statement: (s) =>
      removal(
        s,
        "alert",
        `coalesce(x.resolved_at, x.raised_at) < ${OLD} and (x.resolved_at is not null or not ${hasStandingCause(s, "x")})`,
      ),
  },
  {
    // Late outcomes of a task that is on record leave with the task.
    what: "late outcomes of tasks that are gone",
    ageMs: (ages) => ages.postMortemAgeMs,
    statement: (s) =>
      removal(s, "late", `x.arrived_at < ${OLD} and not exists (select from ${s}.task t where t.id = x.task_id)`),
  },
  {
    // Keys that went on without their tasks (see delete_ended).
    what: "unique keys whose time is over",
    ageMs: () => 0,
    statement: (s) => removal(s, "unique_hold", `x.ended_as is not null and x.counts_until <= ${OLD}`),
  },
  {
    // The others leave when they can be purged. Somebody has retried these, or deleted them by hand.
    what: "refusals of tasks that have not ended",
    ageMs: () => 0,
    statement: (s) =>
      removal(
        s,
        "not_purged",
        `$1::float8 is not null and not exists (select from ${s}.ended e where e.task_id = x.task_id)`,
      ),
  },
  {
    // Those of tasks that are on record leave by purge_ended.
    what: "unique keys of tasks that are gone",
    // No age counts here. `$1` is named only because every rule is given it.
    ageMs: () => 0,
    statement: (s) => `select ${s}.purge_lost_holds($2) as gone where $1::float8 is not null`,
  },
  {
    // Bells of workers that are gone. A worker that comes at this moment arms its bell again with its next look.
    what: "bells",
    // No age counts here. `$1` is named only because every rule is given it.
    ageMs: () => 0,
    statement: (s) =>
      removal(
        s,
        "bell",
        `$1::float8 is not null and not exists (
           select from ${s}.replica r
           where r.status in ('online', 'draining') and (x.queue = any (r.queues) or r.queues is null and x.queue = '*'))`,
      ),
  },
  {
    // Of callers that are gone. One that waits for longer sees the end by looking for itself (see queue/results.ts).
    what: "waiters",
    ageMs: () => DAY_MS,
    statement: (s) => removal(s, "waiter", `x.since < ${OLD}`),
  },
  {
    // The budget is whole again and no task was put off, so that a new row would say the same.
    what: "budgets of rate limits",
    ageMs: () => 0,
    statement: (s) => removal(s, "rate", `x.spent_until <= ${OLD} and x.deferred_until <= ${OLD}`),
  },
  {
    what: "queues that have no settings left",
    ageMs: () => HOUR_MS,
    statement: (s) =>
      removal(s, "queue", `not x.paused and x.concurrency is null and x.rate_limit is null and x.changed_at < ${OLD}`),
  },
  {
    what: "definitions",
    ageMs: () => DEFINITION_AGE_MS,
    statement: (s) =>
      removal(
        s,
        "definition",
        `x.seen_at < ${OLD} and not exists (select from ${s}.replica r where x.name = any (r.tasks))
         and not exists (select from ${s}.ready w where w.name = x.name)
         and not exists (select from ${s}.parked w where w.name = x.name)
         and not exists (select from ${s}.running w where w.name = x.name)`,
        // A worker that has been here for longer than a day still has them.
        `seen as (
           update ${s}.definition d set seen_at = now()
           where d.seen_at < now() - interval '1 day'
             and exists (select from ${s}.replica r where r.status in ('online', 'draining') and d.name = any (r.tasks)))`,
      ),
  },
];

/** In a transaction of its own. Returns how many rows left: as many as a batch has where there may be more. */
export async function purge(tx: Store, rule: PurgeRule, ages: PurgeAges, batch: number): Promise<number> {
  // Somebody may have locked the whole table, and a sweep waits for nobody.
  await tx.query("set local lock_timeout = '500ms'");
  const [row] = await tx.query<{ gone: number }>(rule.statement(tx.schema), [rule.ageMs(ages), batch]);
  return row?.gone ?? 0;
}

function removal(schema: string, table: string, isOver: string, besides?: string): string {
  return `with gone as (
      delete from ${schema}.${table} where ctid = any (array(
        select x.ctid from ${schema}.${table} x where ${isOver} limit $2 for update of x skip locked)) returning *
    )${besides === undefined ? "" : `, ${besides}`}
    select count(*)::int as gone from gone`;
}

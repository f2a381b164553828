/**
 * What leaves the record: one rule for each table, in small batches. A row that is locked stays until the next time. Three things leave
 * elsewhere: ended tasks (purge_ended), lanes (retire_lanes) and old attempts of a task that goes on (end_claims calls trim_attempts).
 * docs/operations.md lists the rules of all tables.
 */
import type { Store } from "../database/database.ts";
import { hasStandingCause } from "./alert-causes.ts";
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
  readonly rows: (schema: string) => OldRows;
}

/** Rows of a table that are older than $1 ms and leave. */
interface OldRows {
  readonly table: string;
  /** By which the row x is named when it cannot be removed. */
  readonly key: string;
  /** About the row x. */
  readonly isOver: string;
  /** Another part of the statement, about what is in `gone`… */
  readonly besides?: string;
  /** …or about something else. This is left off where rows are removed one by one. */
  readonly alongside?: string;
  /** A statement that finds them sooner: it removes at most $2 of them, and returns how many left. */
  readonly usually?: string;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** A definition that no worker has had for so long belongs to code that is gone, as does a service that nobody has run. */
const DEFINITION_AGE_MS = 90 * DAY_MS;
const DELIVERY_AGE_MS = 7 * DAY_MS;

const OLD = "now() - make_interval(secs => $1::float8 / 1000)";

export const PURGE_RULES: readonly PurgeRule[] = [
  {
    what: "beats",
    ageMs: (ages) => ages.historyAgeMs,
    rows: (s) =>
      rows("beat_history", "concat(x.replica_id, ' at ', x.beat_at)", `x.beat_at < ${OLD}`, {
        usually: `select ${s}.purge_beats($1, $2) as gone`,
      }),
  },
  {
    what: "blocked loops",
    ageMs: (ages) => ages.historyAgeMs,
    rows: (s) => rows("blocked_loop", "x.id", `x.seen_at < ${OLD} and not (${isBlockageLasting(s, "x")})`),
  },
  {
    // Those that ended, or whose replica is gone.
    what: "runners",
    ageMs: (ages) => ages.historyAgeMs,
    rows: (s) =>
      rows(
        "runner",
        "x.id",
        `coalesce(x.ended_at, x.beat_at) < ${OLD} and (x.ended_at is not null or not exists (
           select from ${s}.replica r where r.id = x.replica_id and r.status in ('online', 'draining')))`,
      ),
  },
  {
    // Those that are gone and own nothing, with their hearts.
    what: "replicas",
    ageMs: (ages) => ages.purgeAgeMs,
    rows: (s) =>
      rows(
        "replica",
        "x.id",
        `x.status in ('offline', 'dead')
         and coalesce((select h.beat_at from ${s}.heart h where h.replica_id = x.id), x.seen_at) < ${OLD}
         and not exists (select from ${s}.running u where u.replica_id = x.id)`,
        { besides: `with_hearts as (delete from ${s}.heart h using gone where h.replica_id = gone.id)` },
      ),
  },
  {
    // If a replica joins at this moment, `joined_at` has changed, and PostgreSQL checks the row again.
    what: "machines",
    ageMs: (ages) => ages.purgeAgeMs,
    rows: (s) =>
      rows(
        "machine",
        "x.id",
        `x.joined_at < ${OLD} and not exists (select from ${s}.replica r where r.machine_id = x.id)`,
      ),
  },
  {
    what: "post-mortems",
    ageMs: (ages) => ages.postMortemAgeMs,
    rows: () => rows("post_mortem", "x.id", `x.happened_at < ${OLD}`),
  },
  {
    what: "deaths and silences of machines",
    ageMs: (ages) => ages.postMortemAgeMs,
    rows: () => rows("unrest", "x.id", `x.happened_at < ${OLD}`),
  },
  {
    what: "crashes and whom they made suspects",
    ageMs: (ages) => ages.postMortemAgeMs,
    rows: (s) =>
      rows("crash", "x.replica_id", `x.happened_at < ${OLD}`, {
        besides: `with_suspects as (delete from ${s}.suspicion q using gone where q.replica_id = gone.replica_id)`,
      }),
  },
  {
    // An alert that nobody resolved leaves too, unless its cause stands. A process that still meets its cause raises it again.
    what: "alerts",
    ageMs: (ages) => ages.postMortemAgeMs,
    rows: (s) =>
      rows(
        "alert",
        "x.id",
        `coalesce(x.resolved_at, x.last_raised_at) < ${OLD} and (x.resolved_at is not null or not ${hasStandingCause(s, "x")})`,
      ),
  },
  {
    // Delivered or not: what a channel has not taken for so long is no news any more.
    what: "deliveries of alerts",
    ageMs: () => DELIVERY_AGE_MS,
    rows: () => rows("alert_delivery", "concat(x.alert_id, ' ', x.change, ' to ', x.channel)", `x.created_at < ${OLD}`),
  },
  {
    what: "channels of alerts that no process has any more",
    ageMs: () => DELIVERY_AGE_MS,
    rows: () => rows("alert_channel", "x.name", `x.seen_at < ${OLD}`),
  },
  {
    // Late outcomes of a task that is on record leave with the task.
    what: "late outcomes of tasks that are gone",
    ageMs: (ages) => ages.postMortemAgeMs,
    rows: (s) =>
      rows("late", "x.id", `x.arrived_at < ${OLD} and not exists (select from ${s}.task t where t.id = x.task_id)`),
  },
  {
    // Keys that went on without their tasks (see delete_ended).
    what: "unique keys whose time is over",
    ageMs: () => 0,
    rows: () =>
      rows("unique_hold", "concat(x.name, ' ', x.key)", `x.ended_as is not null and x.counts_until <= ${OLD}`),
  },
  {
    // The others leave when they can be purged. Somebody has retried these, or deleted them by hand.
    what: "refusals of tasks that have not ended",
    ageMs: () => 0,
    rows: (s) =>
      rows(
        "not_purged",
        "x.task_id",
        `$1::float8 is not null and not exists (select from ${s}.ended e where e.task_id = x.task_id)`,
      ),
  },
  {
    // Those of tasks that are on record leave by purge_ended.
    what: "unique keys of tasks that are gone",
    // No age counts here. `$1` is named only because every rule is given it.
    ageMs: () => 0,
    rows: (s) =>
      rows(
        "unique_hold",
        "concat(x.name, ' ', x.key)",
        `$1::float8 is not null and x.ended_as is null and not exists (select from ${s}.task t where t.id = x.task_id)
         and ${s}.task_state(x.task_id) is null`,
        { usually: `select ${s}.purge_lost_holds($2) as gone where $1::float8 is not null` },
      ),
  },
  {
    // Bells of workers that are gone. A worker that comes at this moment arms its bell again with its next look.
    what: "bells",
    // No age counts here. `$1` is named only because every rule is given it.
    ageMs: () => 0,
    rows: (s) =>
      rows(
        "bell",
        "x.queue",
        `$1::float8 is not null and not exists (
           select from ${s}.replica r
           where r.status in ('online', 'draining') and (x.queue = any (r.queues) or r.queues is null and x.queue = '*'))`,
      ),
  },
  {
    // Of callers that are gone. One that waits for longer sees the end by looking for itself (see queue/results.ts).
    what: "waiters",
    ageMs: () => DAY_MS,
    rows: () => rows("waiter", "x.id", `x.since < ${OLD}`),
  },
  {
    // Whoever follows does the same every few seconds (see tidy_happenings): this is for when nobody does any more.
    what: "happenings and those who followed them",
    // No age counts here. `$1` is named only because every rule is given it.
    ageMs: () => DAY_MS,
    rows: (s) =>
      rows("happening", "x.id", `x.at < ${OLD}`, {
        usually: `select ${s}.tidy_happenings() as gone where $1::float8 is not null and $2::int > 0`,
      }),
  },
  {
    // The budget is whole again and no task was put off, so that a new row would say the same.
    what: "budgets of rate limits",
    ageMs: () => 0,
    rows: () => rows("rate", "x.key", `x.spent_until <= ${OLD} and x.deferred_until <= ${OLD}`),
  },
  {
    what: "queues that have no settings left",
    ageMs: () => HOUR_MS,
    rows: () =>
      rows(
        "queue",
        "x.name",
        `not x.paused and x.concurrency is null and x.rate_limit is null and x.changed_at < ${OLD}`,
      ),
  },
  {
    // Nobody has swept their source for so long that they hold nothing any more.
    what: "holds that were left behind",
    ageMs: () => HOUR_MS,
    rows: (s) => rows("hold", "x.source", `not ${s}.hold_lasts(x) and x.renewed_at + x.kept_for < ${OLD}`),
  },
  {
    what: "services that nobody runs any more",
    ageMs: () => DEFINITION_AGE_MS,
    rows: () => rows("turn", "x.service", `x.taken_at < ${OLD}`),
  },
  {
    what: "definitions",
    ageMs: () => DEFINITION_AGE_MS,
    rows: (s) =>
      rows(
        "definition",
        "x.name",
        `x.seen_at < ${OLD} and not exists (select from ${s}.replica r where x.name = any (r.tasks))
         and not exists (select from ${s}.pending w where w.name = x.name)
         and not exists (select from ${s}.running w where w.name = x.name)`,
        // A worker that has been here for longer than a day still has them.
        {
          alongside: `seen as (
           update ${s}.definition d set seen_at = now()
           where d.seen_at < now() - interval '1 day'
             and exists (select from ${s}.replica r where r.status in ('online', 'draining') and d.name = any (r.tasks)))`,
        },
      ),
  },
];

/** In a transaction of its own. Returns how many rows left: as many as a batch has where there may be more. */
export async function purge(tx: Store, rule: PurgeRule, ages: PurgeAges, batch: number): Promise<number> {
  return remove(tx, purgeStatement(tx.schema, rule), [rule.ageMs(ages), batch]);
}

export function purgeStatement(schema: string, rule: PurgeRule): string {
  const old = rule.rows(schema);
  return old.usually ?? removal(schema, old, { with: [old.besides, old.alongside] });
}

/** A row that leaves, by its place in the table. */
export interface OldRow {
  readonly place: string;
  readonly key: string;
}

export async function findOldRows(tx: Store, rule: PurgeRule, ages: PurgeAges, limit: number): Promise<OldRow[]> {
  await waitForNobody(tx);
  const { table, key, isOver } = rule.rows(tx.schema);
  return tx.query<OldRow>(
    `select x.ctid::text as place, (${key})::text as key from ${tx.schema}.${table} x where ${isOver} limit $2`,
    [rule.ageMs(ages), limit],
  );
}

/** The same as `purge` with these rows. One that has changed since then is another row, and is left where it must stay. */
export async function purgeRows(tx: Store, rule: PurgeRule, ages: PurgeAges, some: readonly OldRow[]): Promise<number> {
  const old = rule.rows(tx.schema);
  const statement = removal(tx.schema, old, { among: "x.ctid = any ($3::tid[])", with: [old.besides] });
  return remove(tx, statement, [rule.ageMs(ages), some.length, some.map(({ place }) => place)]);
}

function rows(
  table: string,
  key: string,
  isOver: string,
  more: Pick<OldRows, "besides" | "alongside" | "usually"> = {},
): OldRows {
  return { table, key, isOver, ...more };
}

function removal(
  schema: string,
  { table, isOver }: OldRows,
  { among = "true", with: others }: { among?: string; with: readonly (string | undefined)[] },
): string {
  const gone = `gone as (
      delete from ${schema}.${table} where ctid = any (array(
        select x.ctid from ${schema}.${table} x where ${among} and (${isOver}) limit $2 for update of x skip locked)) returning *
    )`;
  const parts = [gone, ...others].filter((part) => part !== undefined);
  return `with ${parts.join(", ")} select count(*)::int as gone from gone`;
}

async function remove(tx: Store, statement: string, values: readonly unknown[]): Promise<number> {
  await waitForNobody(tx);
  const [row] = await tx.query<{ gone: number }>(statement, values);
  return row?.gone ?? 0;
}

/** Somebody may have locked the whole table, and a sweep waits for nobody. */
async function waitForNobody(tx: Store): Promise<void> {
  await tx.query("set local lock_timeout = '500ms'");
}

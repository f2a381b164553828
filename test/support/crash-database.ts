/**
 * A database for tests with worker processes: tables in which handlers leave traces, looks at what reapers see and did, and the
 * questions that every such test asks at its end.
 */
import pg from "pg";
import { expect, onTestFinished } from "vitest";
import type { OpenOptions } from "../../src/config/open-options.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { createMigratedDatabase, createTestDatabase, type TestDatabase } from "./database.ts";
import { eventually } from "./eventually.ts";

export interface ReplicaRow {
  readonly status: "online" | "draining" | "offline" | "dead";
  readonly died_at: Date | null;
  readonly seen_at: Date;
  readonly death: Record<string, unknown> | null;
  readonly beat_at: Date;
  readonly vitals: { blockedForMs: number; inHand: number; rss: number; memoryLimit: number; groupUsed: number } | null;
}

export interface CrashDatabase extends TestDatabase {
  readonly everbeat: Everbeat;
  count(from: string): Promise<number>;
  /** Every task is in exactly one place, every claim on record exactly once, and nobody waited in a circle. */
  expectSound(): Promise<void>;
  replica(id: string): Promise<ReplicaRow>;
  /** Waits until it has this status. */
  untilStatus(id: string, status: ReplicaRow["status"], within?: number): Promise<ReplicaRow>;
  /**
   * Waits for a beat of this replica that comes after the first sweep. Before a sweep nobody has listened, so that nothing is known of anybody;
   * and the end of a session proves something from that beat on.
   */
  untilHeard(id: string): Promise<void>;
  /** How many replicas were ever declared dead. */
  deaths(): Promise<number>;
  crashesOf(taskId: string): Promise<number>;
}

/** Open for the test itself, which enqueues and gives orders but does not work; all gone when the test is over. */
export async function openCrashDatabase(options: OpenOptions = {}, serverUrl?: string): Promise<CrashDatabase> {
  const database = await (serverUrl === undefined ? createMigratedDatabase() : createTestDatabase(serverUrl));
  const everbeat = await Everbeat.open({ database: database.url, log: "silent", ...options });
  onTestFinished(async () => {
    await everbeat.close({ now: true });
    await database.drop();
  });
  await database.query(`
    create table effect (task_id uuid not null, claim_id bigint not null, kind text not null, at timestamptz not null default clock_timestamp());
    create table span (task_id uuid not null, claim_id bigint not null, started_at timestamptz not null default clock_timestamp(), ended_at timestamptz)`);
  const number = async (text: string, values?: unknown[]) =>
    (await database.query<{ n: number }>(`select (${text})::int as n`, values))[0]?.n ?? 0;
  const replica = (id: string) => readReplica(database, id);
  return {
    ...database,
    everbeat,
    count: (from) => number(`select count(*) from ${from}`),
    expectSound: () => expectSound(database),
    replica,
    untilStatus: (id, status, within = 30_000) =>
      eventually(() => replica(id), { until: (row) => row.status === status, within, what: `${id} to be ${status}` }),
    async untilHeard(id) {
      const heard = "everbeat.heart h, everbeat.listening l where everbeat.session_counts(h, l) and h.replica_id = $1";
      await eventually(() => number(`select count(*) from ${heard}`, [id]), {
        within: 30_000,
        what: `${id} to be heard`,
      });
    },
    deaths: () => number("select count(*) from everbeat.replica where died_at is not null"),
    crashesOf: (taskId) => number("select crashes from everbeat.tasks where id = $1", [taskId]),
  };
}

async function readReplica({ query }: TestDatabase, id: string): Promise<ReplicaRow> {
  const [row] = await query<ReplicaRow>(
    `select r.status, r.died_at, r.seen_at, r.death, h.beat_at, everbeat.vitals_of(h.signs) as vitals
     from everbeat.replica r left join everbeat.heart h on h.replica_id = r.id where r.id = $1`,
    [id],
  );
  if (!row) throw new Error(`replica ${id} is not on record`);
  return row;
}

/** Another client of the same database, by this address. */
export async function openThrough(url: string, options: OpenOptions = {}): Promise<Everbeat> {
  const everbeat = await Everbeat.open({ database: url, log: "silent", ...options });
  onTestFinished(() => everbeat.close({ now: true }));
  return everbeat;
}

/** Runs the statement in a transaction of its own and keeps its locks until they are released. */
export async function holding(
  url: string,
  statement: string,
): Promise<{ release(): Promise<void>; abandon(): Promise<void> }> {
  const client = new pg.Client(url);
  client.on("error", () => {});
  await client.connect();
  onTestFinished(() => client.end().catch(() => {}));
  await client.query("begin");
  await client.query(statement);
  return {
    async release() {
      await client.query("commit");
    },
    /** As if the statement had never been. */
    async abandon() {
      await client.query("rollback");
    },
  };
}

async function expectSound({ query }: TestDatabase): Promise<void> {
  const misplaced = await query(`
    select t.id, array_agg(p.place) as places from everbeat.task t
    left join (select task_id, 'ready' as place from everbeat.ready union all select task_id, 'parked' from everbeat.parked
               union all select task_id, state from everbeat.running union all select task_id, state from everbeat.ended) p on p.task_id = t.id
    group by t.id having count(p.place) <> 1`);
  expect(misplaced).toEqual([]);
  const homeless = await query(`
    select task_id from (select task_id from everbeat.ready union all select task_id from everbeat.parked
      union all select task_id from everbeat.running union all select task_id from everbeat.ended) p
    where not exists (select from everbeat.task t where t.id = p.task_id)`);
  expect(homeless).toEqual([]);
  const claimedTwice = await query(
    "select claim_id, count(*) from everbeat.attempts group by claim_id having count(*) <> 1",
  );
  expect(claimedTwice).toEqual([]);
  const [{ deadlocks } = { deadlocks: -1 }] = await query<{ deadlocks: number }>(
    "select deadlocks::int from pg_stat_database where datname = current_database()",
  );
  expect(deadlocks).toBe(0);
}

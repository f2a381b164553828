/** Hearts by way of PgBouncer in transaction mode: there are no sessions, so beats alone tell who is alive. */
import { afterAll, beforeAll, describe, expect, inject, test, vi } from "vitest";
import { everbeat as cli } from "../cli/run-cli.ts";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { type PgBouncer, startPgBouncer } from "../support/pgbouncer.ts";
import { SCALED, startWorker, task } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 90_000 });

let pooler: PgBouncer;
beforeAll(async () => {
  pooler = await startPgBouncer(inject("serverUrl"));
});
afterAll(async () => {
  await pooler.stop();
});

const TASKS = [{ handler: "hold", onCrash: "requeue" }] as const;

/** Two workers by way of the pooler, the first with a task in hand. */
async function twoWorkers() {
  const database = await openCrashDatabase();
  const url = pooler.through(database.url);
  const start = () => startWorker({ url, tasks: TASKS, open: { recovery: SCALED }, work: { concurrency: 1 } });
  const first = await start();
  const id = await database.everbeat.enqueue(task("hold"), {});
  await first.heard({ handler: "begun", taskId: id });
  return { database, url, first, second: await start(), id };
}

describe("by way of PgBouncer in transaction mode", () => {
  test("a worker that is killed is known to be dead by its silence, and its task runs again", async () => {
    const { database, first, second, id } = await twoWorkers();
    const { rows } = await sessions(database.query);
    expect(rows).toEqual([
      { epoch: null, free: null },
      { epoch: null, free: null },
    ]);
    for (const worker of [first, second])
      expect(await worker.heard({ event: "heart.beating" })).toMatchObject({ hasSession: false });
    await first.kill();
    const { death, died_at: diedAt, beat_at: beatAt } = await database.untilStatus(first.replicaId, "dead", 30_000);
    expect(death).toMatchObject({ because: "silent" });
    expect(Number(diedAt) - Number(beatAt)).toBeGreaterThan(3_000);
    await second.heard({ handler: "begun", taskId: id, attempt: 2 });
    expect(await database.crashesOf(id)).toBe(1);
    // Its session in the pooler lives on with others, and would have told of nothing.
    expect((await sessions(database.query)).locks).toBe(0);
    second.release();
    expect(await database.everbeat.result(id, { timeout: 20_000 })).toBe("held");
    expect((await database.replica(second.replicaId)).status).toBe("online");
  });

  test("nothing stands in for a heart that starts: the first task waits for its first beat", async () => {
    const database = await openCrashDatabase();
    const id = await database.everbeat.enqueue(task("quick"), {});
    await startWorker({ url: pooler.through(database.url), tasks: [{ handler: "quick" }] });
    await database.everbeat.result(id, { timeout: 30_000 });
    const order = await database.query(
      `select e.claimed_at >= min(b.beat_at) as "isHeardFirst" from everbeat.ended e join everbeat.beat_history b using (replica_id)
       group by e.claimed_at`,
    );
    expect(order).toEqual([{ isHeardFirst: true }]);
    const { rows, locks } = await sessions(database.query);
    expect({ rows, locks }).toEqual({ rows: [{ epoch: null, free: null }], locks: 0 });
  });

  test("nobody is dead for the pooler's sake: both are heard for longer than it takes to be silent", async () => {
    const { database, first, second } = await twoWorkers();
    const beatAt = async (id: string) => Number((await database.replica(id)).beat_at);
    const [before, other] = [await beatAt(first.replicaId), await beatAt(second.replicaId)];
    await eventually(
      async () => (await beatAt(first.replicaId)) - before > 6_000 && (await beatAt(second.replicaId)) - other > 6_000,
      { within: 30_000 },
    );
    expect(await database.deaths()).toBe(0);
    for (const { messages } of [first, second])
      expect(messages.filter(({ event }) => event === "replica.fenced" || event === "heart.lost")).toEqual([]);
  });

  test("doctor says that hearts have no session, and why a crash is known later there", async () => {
    const { url, database } = await twoWorkers();
    const { stdout } = await cli(["doctor"], { database: url });
    expect(stdout).toMatch(/^! pooler +a pooler sits in between/m);
    expect(stdout).toMatch(/^! hearts .*without a session of (its|their) own.*\n +→ A pooler in transaction mode/m);
    const replicas = await database.everbeat.replicas();
    expect(replicas.map(({ hasSession, holdsSession }) => ({ hasSession, holdsSession }))).toEqual([
      { hasSession: false, holdsSession: false },
      { hasSession: false, holdsSession: false },
    ]);
  });
});

/** What the hearts' rows say of their sessions, and how many session locks there are in this database. */
async function sessions(query: <Row>(text: string) => Promise<Row[]>) {
  const rows = await query<{ epoch: string | null; free: Date | null }>(
    "select session_epoch as epoch, nullif(session_free_since, 'infinity') as free from everbeat.heart",
  );
  const [locks] = await query<{ n: number }>("select cardinality(everbeat.held_sessions()) as n");
  return { rows, locks: locks?.n };
}

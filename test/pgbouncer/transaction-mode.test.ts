/** Everything by way of PgBouncer in transaction mode: nothing may depend on a session, and prepared statements least of all. */
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { type CrashDatabase, openCrashDatabase, openThrough } from "../support/crash-database.ts";
import { createTestDatabase, LISTENING } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { type PgBouncer, startPgBouncer } from "../support/pgbouncer.ts";
import { type Handler, startWorker, type WorkerProcess } from "../support/worker-process.ts";

let pooler: PgBouncer;
beforeAll(async () => {
  pooler = await startPgBouncer(inject("serverUrl"));
});
afterAll(async () => {
  await pooler.stop();
});

const task = (name: Handler) => defineTask({ name, run: async (_input: object) => undefined as unknown });
const HANDLERS = ["note", "completeIn", "deaf", "hold", "span"] as const;

/** A client and two worker processes, all by way of the pooler. */
async function openPooled(): Promise<{ database: CrashDatabase; everbeat: Everbeat; workers: WorkerProcess[] }> {
  const database = await openCrashDatabase();
  const url = pooler.through(database.url);
  const everbeat = await openThrough(url);
  const options = {
    url,
    work: { pollInterval: 200, concurrency: 8 },
    tasks: HANDLERS.map((handler) => ({ handler })),
    forward: ["database.lost", "claim.lost", "outcome.repeated"] as const,
  };
  return { database, everbeat, workers: await Promise.all([startWorker(options), startWorker(options)]) };
}

async function expectUntroubled({ database, workers }: Awaited<ReturnType<typeof openPooled>>): Promise<void> {
  expect(workers.flatMap((worker) => worker.messages.filter((message) => message.event))).toEqual([]);
  expect(await pooler.log()).not.toMatch(/prepared statement|ERROR/);
  await database.expectSound();
}

describe("by way of PgBouncer in transaction mode", () => {
  test("a fresh database is migrated, by several at once", async () => {
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const open = () => Everbeat.open({ database: pooler.through(database.url), log: "silent" });
    const opened = await Promise.all([open(), open(), open()]);
    expect(await opened[0].tasks.counts()).toMatchObject({ pending: 0 });
    await Promise.all(opened.map((everbeat) => everbeat.close()));
  });

  test("tasks are enqueued, claimed, run, finished and waited for by two processes", async () => {
    const pooled = await openPooled();
    const { everbeat, database } = pooled;
    const note = task("note");
    const ids = await everbeat.enqueueMany(
      note,
      Array.from({ length: 500 }, () => ({})),
    );
    const single = await Promise.all(Array.from({ length: 100 }, () => everbeat.enqueue(note, {})));
    for (const id of [...ids, ...single]) expect(await everbeat.result(id, { timeout: 30_000 })).toMatch(/^\d+$/);
    const workedBy = await database.query("select distinct replica_id from everbeat.ended");
    expect(workedBy).toHaveLength(2);
    expect(await database.count("effect")).toBe(600);
    await expectUntroubled(pooled);
  });

  test("workers notice that they cannot listen, and look by themselves", async () => {
    const pooled = await openPooled();
    const { everbeat, database } = pooled;
    await everbeat.result(await everbeat.enqueue(task("note"), {}, { delay: 300 }), { timeout: 5_000 });
    expect(await database.count(LISTENING)).toBe(0);
    await expectUntroubled(pooled);
  });

  test("a call by way of the pooler wakes a worker that listens beside it", async () => {
    const database = await openCrashDatabase();
    const work = { pollInterval: "1m" } as const;
    await startWorker({ url: database.url, work, tasks: [{ handler: "note" }] });
    const everbeat = await openThrough(pooler.through(database.url));
    for (let round = 0; round < 20; round++) {
      await eventually(() => database.count("everbeat.bell where armed"), {
        within: 30_000,
        what: "it to fall asleep",
      });
      await everbeat.result(await everbeat.enqueue(task("note"), {}), { timeout: 30_000 });
    }
    expect(await database.count("effect")).toBe(20);
    expect(await pooler.log()).not.toMatch(/prepared statement|ERROR/);
    await database.expectSound();
  });

  test("unique keys, exclusive keys and a queue's limits hold", async () => {
    const pooled = await openPooled();
    const { everbeat, database } = pooled;
    const span = task("span");
    await everbeat.queues.set("narrow", { concurrency: 2 });
    await everbeat.enqueueMany(
      span,
      Array.from({ length: 20 }, () => ({ ms: 5 })),
      { options: { exclusiveKey: "k" } },
    );
    await everbeat.enqueueMany(
      span,
      Array.from({ length: 20 }, () => ({ ms: 5 })),
      { options: { queue: "narrow" } },
    );
    const first = await everbeat.enqueue(span, {}, { uniqueKey: "u", delay: "1h" });
    expect(await everbeat.enqueue(span, {}, { uniqueKey: "u", delay: "1h" })).toBe(first);
    await eventually(() => database.count("everbeat.ended"), { until: (n) => n === 40, within: 30_000 });
    const [most] = await database.query(
      `with s as (select s.*, coalesce(t.exclusive_key, t.queue) as gate from span s join everbeat.task t on t.id = s.task_id)
       select max((select count(*) from s b where b.gate = a.gate and b.started_at <= a.started_at and b.ended_at > a.started_at)) filter (where gate = 'k')::int as keyed,
              max((select count(*) from s b where b.gate = a.gate and b.started_at <= a.started_at and b.ended_at > a.started_at)) filter (where gate = 'narrow')::int as narrow
       from s a`,
    );
    expect(most).toEqual({ keyed: 1, narrow: 2 });
    await expectUntroubled(pooled);
  });

  test("a task is completed in its handler's own transaction", async () => {
    const pooled = await openPooled();
    const { everbeat, database } = pooled;
    const ids = await everbeat.enqueueMany(
      task("completeIn"),
      Array.from({ length: 50 }, () => ({})),
    );
    for (const id of ids) await everbeat.result(id, { timeout: 20_000 });
    expect(await database.count("effect e join everbeat.ended d using (task_id, claim_id)")).toBe(50);
    await expectUntroubled(pooled);
  });

  test.each(["guard before", "completeIn before", "guard after", "completeIn after"])(
    "a lost claim is refused in the handler's own transaction (%s)",
    async (how) => {
      const database = await openCrashDatabase();
      const url = pooler.through(database.url);
      const worker = await startWorker({
        url,
        work: { pollInterval: 200, abortGrace: "1m" },
        tasks: [{ handler: "deaf" }],
        forward: ["claim.lost"],
      });
      const everbeat = await openThrough(url);
      const id = await everbeat.enqueue(task("deaf"), { how });
      await worker.heard({ handler: "begun" });
      await everbeat.queues.pause("default");
      expect(await everbeat.tasks.retry(id, { force: true })).toMatchObject([{ outcome: "taken" }]);
      worker.release();
      await worker.heard({ handler: "refused" });
      await worker.heard({ event: "claim.lost" });
      expect(await database.count("effect")).toBe(0);
      await database.expectSound();
    },
  );

  test("a running task is cancelled", async () => {
    const pooled = await openPooled();
    const { everbeat, workers } = pooled;
    const id = await everbeat.enqueue(task("hold"), {});
    await eventually(() => workers.some((worker) => worker.messages.some((message) => message.taskId === id)));
    expect(await everbeat.tasks.cancel(id)).toMatchObject([{ outcome: "cancelling" }]);
    await expect(everbeat.result(id, { timeout: 10_000 })).rejects.toMatchObject({ state: "cancelled" });
    await expectUntroubled(pooled);
  });

  test("a worker leaves in good order", async () => {
    const pooled = await openPooled();
    const { everbeat, workers } = pooled;
    for (const worker of workers) worker.signal("SIGTERM");
    for (const worker of workers) expect(await worker.exited).toMatchObject({ signal: "SIGTERM" });
    expect((await everbeat.replicas()).map((replica) => replica.status)).toEqual(["offline", "offline"]);
    await expectUntroubled(pooled);
  });
});

/** PostgreSQL goes away and comes back under a worker, which holds what it has finished and goes on by itself. */
import { describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { type CrashDatabase, holding, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { type OwnServer, startOwnServer } from "../support/own-server.ts";
import { startWorker, task, type WorkerProcess } from "../support/worker-process.ts";

const quick = task("quick");
const deaf = task("deaf");
const FORWARD = ["database.lost", "database.back", "claim.lost", "task.ended", "task.started"] as const;

async function startOnOwnServer(
  work: object,
): Promise<{ server: OwnServer; database: CrashDatabase; worker: WorkerProcess }> {
  const server = await startOwnServer();
  const database = await openCrashDatabase({}, server.url);
  const tasks = [{ handler: "quick" }, { handler: "deaf" }] as const;
  const worker = await startWorker({
    url: database.url,
    work: { pollInterval: 200, ...work },
    tasks,
    forward: FORWARD,
  });
  return { server, database, worker };
}

/** A call goes on trying for ten seconds: it need not see the end of an outage that is longer, which a busy machine may take. */
const SHORT_OUTAGE_MS = 8_000;

describe("a server that stops and starts again", () => {
  test.each(["fast", "immediate"] as const)(
    "under load (%s): nothing is lost, all tasks complete once",
    { timeout: 240_000 },
    async (mode) => {
      const { server, database, worker } = await startOnOwnServer({ concurrency: 20 });
      const { everbeat, count } = database;
      let isOver = false;
      const accepted: string[] = [];
      const refused: unknown[] = [];
      // Callers that go on all the while: a call either succeeds, and then the task exists, or says that it could not.
      const callers = Array.from({ length: 4 }, async () => {
        while (!isOver) {
          await everbeat
            .enqueueMany(
              quick,
              Array.from({ length: 20 }, () => ({})),
            )
            .then(
              (ids) => accepted.push(...ids),
              (error) => refused.push(error),
            );
          await everbeat.enqueue(quick, {}).then(
            (id) => accepted.push(id),
            (error) => refused.push(error),
          );
        }
      });
      const goOn = async () => {
        const before = accepted.length;
        await eventually(() => accepted.length > before + 300, { within: 40_000 });
      };
      await goOn();
      const refusedInShort: unknown[] = [];
      let short = 0;
      for (let restart = 0; short < 3 && restart < 6; restart++) {
        const refusedBefore = refused.length;
        const stoppedAt = performance.now();
        await server.stop(mode);
        await server.start();
        const isShort = performance.now() - stoppedAt < SHORT_OUTAGE_MS;
        await goOn();
        if (!isShort) continue;
        refusedInShort.push(...refused.slice(refusedBefore));
        short++;
      }
      isOver = true;
      await Promise.all(callers);
      await eventually(async () => (await count("everbeat.ended")) === (await count("everbeat.task")), {
        within: 60_000,
      });

      // A call that gave up may have been carried out; never the other way round.
      const exist = await database.query<{ id: string }>(
        "select id::text from everbeat.tasks where state = 'completed' and attempt = 1",
      );
      const ended = new Set(exist.map((row) => row.id));
      expect(accepted.filter((id) => !ended.has(id))).toEqual([]);
      expect(await count("everbeat.task")).toBe(ended.size);
      expect(short).toBeGreaterThan(0);
      expect(refusedInShort).toEqual([]);
      expect(await count("everbeat.late")).toBe(0);
      expect(await count("everbeat.attempt")).toBe(0);
      expect(worker.messages.filter((message) => message.event === "database.lost").length).toBeGreaterThan(0);
      await database.expectSound();
    },
  );
});

describe("a worker whose database is away", () => {
  test("holds what it finishes, and writes it when the database is back", { timeout: 60_000 }, async () => {
    const { server, database, worker } = await startOnOwnServer({ concurrency: 3 });
    const ids = await database.everbeat.enqueueMany(deaf, [{}, {}, {}]);
    for (const id of ids) await worker.heard({ handler: "begun", taskId: id });
    await server.stop("fast");
    worker.release();
    await worker.heard({ event: "database.lost" });
    await server.start();
    for (const id of ids) expect(await database.everbeat.result(id, { timeout: 20_000 })).toBe("held");
    await worker.heard({ event: "database.back" });
    expect(worker.messages.filter((message) => message.event === "claim.lost")).toEqual([]);
    // It also takes new work by itself, and is told of it: the notices are back.
    await database.everbeat.result(await database.everbeat.enqueue(quick, {}), { timeout: 10_000 });
    await database.expectSound();
  });

  test("starts nothing new while it holds as much as it may", { timeout: 60_000 }, async () => {
    const { database, worker } = await startOnOwnServer({ concurrency: 2, prefetch: 0, maxHeldOutcomes: 2 });
    const { everbeat, count } = database;
    const first = await everbeat.enqueueMany(deaf, [{}, {}]);
    for (const id of first) await worker.heard({ handler: "begun", taskId: id });
    // From here on no outcome can be written, while tasks could be claimed all the same.
    const away = await holding(database.url, "lock table everbeat.ended in access exclusive mode");
    worker.release();
    const rest = await everbeat.enqueueMany(quick, [{}, {}, {}]);
    const stuck = "pg_stat_activity where wait_event_type = 'Lock' and query like '%end_claims(%'";
    await eventually(() => count(stuck), { until: (n) => n > 0 });
    // Both slots are free and the worker looks several times a second; a look that it makes is seen by its replica's sign.
    const [{ seen_at: before } = { seen_at: undefined }] = await database.query("select seen_at from everbeat.replica");
    await eventually(() =>
      count(`everbeat.replica where seen_at > timestamptz '${(before as Date).toISOString()}' + interval '1 second'`),
    );
    expect(await count("everbeat.ready")).toBe(3);
    await away.release();
    for (const id of [...first, ...rest]) await everbeat.result(id, { timeout: 10_000 });
    await database.expectSound();
  });

  test("is refused what was taken away from it in the meantime", { timeout: 60_000 }, async () => {
    const { server, database, worker } = await startOnOwnServer({ concurrency: 1 });
    const id = await database.everbeat.enqueue(deaf, {});
    await worker.heard({ handler: "begun" });
    worker.signal("SIGSTOP");
    await server.stop("immediate");
    await server.start();
    await database.everbeat.tasks.retry(id, { force: true });
    await server.stop("immediate");
    worker.release();
    worker.signal("SIGCONT");
    await worker.heard({ event: "database.lost" });
    await server.start();
    expect(await worker.heard({ event: "claim.lost", refusedOutcome: "completed" })).toMatchObject({ taskId: id });
    expect((await database.everbeat.tasks.show(id)).late).toMatchObject([{ outcome: "completed" }]);
    await database.expectSound();
  });
});

test("a wait for a result goes on through an outage, until its own timeout", { timeout: 120_000 }, async () => {
  const server = await startOwnServer();
  const { everbeat, count } = await openCrashDatabase({}, server.url);
  const id = await everbeat.enqueue(quick, {});
  const patient = everbeat.result(id, { timeout: "2m" });
  patient.catch(() => {});
  // Longer than a call goes on trying.
  const brief = everbeat.result(id, { timeout: "11s" });
  brief.catch(() => {});
  await eventually(async () => (await count("everbeat.waiter")) === 2);
  await server.stop("fast");
  await expect(brief).rejects.toMatchObject({ code: "RESULT_TIMEOUT" });
  await server.start();
  await everbeat.work([defineTask({ name: "quick", run: () => "done" })], { handleSignals: false });
  expect(await patient).toBe("done");
});

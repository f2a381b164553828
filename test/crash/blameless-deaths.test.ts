/** Shutdowns, deploys, notices of preemption and fences: they cost neither retries nor crashes. */
import { describe, expect, test, vi } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { startCuttingProxy } from "../support/cutting-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { PATIENT, startWorker, task } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 120_000 });

const open = { recovery: PATIENT };
const TASKS = [
  { handler: "deaf", name: "deaf", onCrash: "requeue" },
  { handler: "hold", name: "hold", onCrash: "requeue" },
  { handler: "wait", name: "wait", onCrash: "requeue" },
] as const;

async function expectUncharged(database: CrashDatabase, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    expect(await database.crashesOf(id)).toBe(0);
    expect((await database.everbeat.tasks.show(id)).failures).toBe(0);
  }
  expect(await database.query("select from everbeat.suspicion where task_id = any ($1)", [ids])).toEqual([]);
}

const postMortemOf = (database: CrashDatabase, replicaId: string) =>
  eventually(async () => (await database.everbeat.recovery.postMortems({ of: replicaId }))[0], {
    ...{ within: 45_000, what: "a post-mortem" },
  });

describe("nobody is charged for", () => {
  test("a shutdown that is cut short by kill -9, as after a notice of preemption", async () => {
    const database = await openCrashDatabase();
    const first = await startWorker({
      ...{ url: database.url, open, tasks: TASKS },
      work: { shutdownGrace: "1m", handleSignals: true },
    });
    const id = await database.everbeat.enqueue(task("deaf"), {});
    await first.heard({ handler: "begun", taskId: id });
    const second = await startWorker({ url: database.url, open, tasks: TASKS });
    first.signal("SIGTERM");
    await database.untilStatus(first.replicaId, "draining");
    await first.kill();
    await second.heard({ handler: "begun", taskId: id, attempt: 2 });
    await expectUncharged(database, [id]);
    expect(await postMortemOf(database, first.replicaId)).toMatchObject({
      cause: "shutdown-overrun",
      sentence: expect.stringMatching(/^The process had been told to go, and was ended before its tasks were/),
    });
  });

  test("a rolling restart under load", async () => {
    const database = await openCrashDatabase();
    const start = () =>
      startWorker({
        ...{ url: database.url, open, tasks: TASKS },
        work: { concurrency: 4, shutdownGrace: 200, abortGrace: "30s", handleSignals: true },
      });
    const old = [await start(), await start()];
    const ids = await database.everbeat.enqueueMany(
      task("wait"),
      Array.from({ length: 60 }, () => ({ ms: 300 })),
    );
    await eventually(() => old.some(({ messages }) => messages.some(({ handler }) => handler === "begun")), {
      within: 30_000,
    });
    for (const worker of old) {
      await start();
      worker.signal("SIGTERM");
      await worker.exited;
    }
    await eventually(async () => (await database.everbeat.tasks.counts()).completed, {
      until: (completed) => completed === ids.length,
      within: 60_000,
    });
    await expectUncharged(database, ids);
    expect(await database.deaths()).toBe(0);
    expect(await database.everbeat.recovery.postMortems()).toEqual([]);
  });

  test("a fence: a worker that is cut off stops its own work, and is back later", async () => {
    const database = await openCrashDatabase();
    const proxy = await startCuttingProxy(database.url);
    const first = await startWorker({ url: proxy.url, open, tasks: TASKS });
    const id = await database.everbeat.enqueue(task("hold"), {});
    await first.heard({ handler: "begun", taskId: id });
    const second = await startWorker({ url: database.url, open, tasks: TASKS });
    proxy.cut("both");
    await first.heard({ event: "replica.fenced" }, 30_000);
    await second.heard({ handler: "begun", taskId: id, attempt: 2 }, 30_000);
    // As long as nobody knows better it looks like a crash.
    expect(await database.crashesOf(id)).toBe(1);
    expect(await postMortemOf(database, first.replicaId)).toMatchObject({ cause: "unreachable" });
    proxy.mend();
    await first.heard({ event: "replica.rejoined", before: first.replicaId }, 60_000);
    await expectUncharged(database, [id]);
    expect(await postMortemOf(database, first.replicaId)).toMatchObject({
      cause: "cut-off",
      sentence: expect.stringMatching(/^The process was not dead: it had been cut off .* and was back .* later\.$/),
    });
    expect((await database.everbeat.recovery.reliability())[0]).toMatchObject({ deaths: 0 });
  });

  test("a pause: a worker that stood still, and goes on", async () => {
    const database = await openCrashDatabase();
    const first = await startWorker({ url: database.url, open, tasks: TASKS });
    const id = await database.everbeat.enqueue(task("hold"), {});
    await first.heard({ handler: "begun", taskId: id });
    const second = await startWorker({ url: database.url, open, tasks: TASKS });
    first.signal("SIGSTOP");
    await second.heard({ handler: "begun", taskId: id, attempt: 2 }, 30_000);
    expect(await postMortemOf(database, first.replicaId)).toMatchObject({
      cause: "unreachable",
      sentence: expect.stringContaining("fell silent with its database session still open"),
    });
    first.signal("SIGCONT");
    await first.heard({ event: "replica.rejoined", before: first.replicaId }, 30_000);
    await expectUncharged(database, [id]);
    // Whether it hears of its death from a beat or notices the gap itself is a matter of who is quicker.
    expect((await postMortemOf(database, first.replicaId))?.cause).toMatch(/^(stood-still|cut-off)$/);
  });
});

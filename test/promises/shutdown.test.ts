/** Leaving on a signal: what has not started goes back, what runs may end, and nothing is charged for it. */
import { describe, expect, test } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { expectGivenBack } from "../support/leaving-at-once.ts";
import { KEEPS_AHEAD, startWorker, task } from "../support/worker-process.ts";

const deaf = task("deaf");
const hold = task("hold");

type Graces = { shutdownGrace: string | number; abortGrace: string | number };

/** One task runs, and three are claimed ahead. */
async function workerWithFull(task: typeof deaf, graces: Graces) {
  const database = await openCrashDatabase();
  const worker = await startWorker({
    url: database.url,
    work: { concurrency: 1, prefetch: 3, ...KEEPS_AHEAD, ...graces } as never,
    tasks: [{ handler: "deaf" }, { handler: "hold" }],
    forward: ["handler.abandoned", "task.ended", "worker.stopped"],
  });
  const ids = await database.everbeat.enqueueMany(task, [{}, {}, {}, {}]);
  const running = (await worker.heard({ handler: "begun" })).taskId as string;
  await eventually(() => database.count("everbeat.running where state = 'claimed'"), {
    until: (n) => n === 3,
    within: 30_000,
  });
  const ahead = ids.filter((id) => id !== running);
  return { database, worker, running, ahead };
}

async function expectGone({ database, worker }: Awaited<ReturnType<typeof workerWithFull>>, signal: NodeJS.Signals) {
  // As the process would have ended without us: by the signal.
  expect(await worker.exited).toEqual({ code: null, signal });
  expect(await database.everbeat.replicas()).toMatchObject([{ status: "offline", claimed: 0, running: 0 }]);
  await database.expectSound();
}

describe("a worker that is told to stop", () => {
  test("gives back at once what it has not started, and lets what runs end", async () => {
    const full = await workerWithFull(deaf, { shutdownGrace: "1m", abortGrace: "1m" });
    const { database, worker, running, ahead } = full;
    worker.signal("SIGTERM");
    await eventually(() => database.count("everbeat.ready"), { until: (n) => n === 3, within: 30_000 });
    for (const id of ahead) {
      expect(await database.everbeat.tasks.show(id)).toMatchObject({ state: "pending", attempt: 0, attempts: [] });
    }
    expect((await database.everbeat.tasks.show(running)).state).toBe("running");
    await database.untilStatus(worker.replicaId, "draining");
    worker.release();
    expect(await database.everbeat.result(running)).toBe("held");
    await expectGone(full, "SIGTERM");
  });

  test("aborts what runs after the grace, and puts it back uncharged", async () => {
    const full = await workerWithFull(hold, { shutdownGrace: 300, abortGrace: "1m" });
    const { database, worker, running } = full;
    worker.signal("SIGINT");
    await expectGone(full, "SIGINT");
    const shown = await database.everbeat.tasks.show(running);
    expect(shown).toMatchObject({ state: "pending", failures: 0, attempt: 1 });
    expect(shown.attempts).toMatchObject([{ outcome: "aborted", error: { code: "WORKER_STOPPING" } }]);
    expect(worker.messages.filter((message) => message.event === "handler.abandoned")).toEqual([]);
  });

  test("leaves a handler behind that ignores its signal", async () => {
    const full = await workerWithFull(deaf, { shutdownGrace: 100, abortGrace: 300 });
    const { database, worker, running } = full;
    worker.signal("SIGTERM");
    expect(await worker.heard({ handler: "aborted" })).toMatchObject({ code: "WORKER_STOPPING" });
    await expectGone(full, "SIGTERM");
    expect(worker.messages).toContainEqual(expect.objectContaining({ event: "handler.abandoned", taskId: running }));
    expect(await database.everbeat.tasks.show(running)).toMatchObject({ state: "pending", failures: 0 });
  });

  test("leaves at once at the second signal, whatever its graces and its handlers", async () => {
    const full = await workerWithFull(deaf, { shutdownGrace: "10m", abortGrace: "10m" });
    const { database, worker, running } = full;
    worker.signal("SIGTERM");
    await eventually(() => database.count("everbeat.ready"), { until: (n) => n === 3 });
    const toldAt = performance.now();
    worker.signal("SIGTERM");
    const ended = eventually(() => Promise.race([worker.exited, undefined]), { within: 30_000, what: "its end" });
    expect(await ended).toEqual({ code: null, signal: "SIGTERM" });
    const tookMs = performance.now() - toldAt;
    await expectGivenBack(database.everbeat, { ids: [running], pids: [worker.pid], tookMs });
    await database.expectSound();
  });

  test("gives back what it does not know that it has", async () => {
    const full = await workerWithFull(deaf, { shutdownGrace: "1m", abortGrace: "1m" });
    const { database, worker } = full;
    // As if the replies to a claim and to a start had been lost in the last moment.
    worker.signal("SIGTERM");
    await eventually(() => database.count("everbeat.ready"), { until: (n) => n === 3 });
    await database.query(`select everbeat.claim_tasks($1, '{deaf}', null, null, 1, 1, '{}', '{}', '{}')`, [
      worker.replicaId,
    ]);
    worker.release();
    await expectGone(full, "SIGTERM");
    expect(await database.count("everbeat.ready")).toBe(3);
  });

  test("leaves nothing behind that keeps the process alive", async () => {
    const database = await openCrashDatabase();
    const work = { handleSignals: false, abortGrace: "1m" } as const;
    const worker = await startWorker({ url: database.url, work, tasks: [{ handler: "hold" }] });
    const id = await database.everbeat.enqueue(hold, {});
    await worker.heard({ handler: "begun" });
    await database.everbeat.tasks.cancel(id);
    await expect(database.everbeat.result(id)).rejects.toMatchObject({ state: "cancelled" });
    worker.close();
    const ending = eventually(() => Promise.race([worker.exited, undefined]), { within: 30_000 });
    expect(await ending).toEqual({ code: 0, signal: null });
  });
});

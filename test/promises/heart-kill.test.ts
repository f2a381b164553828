/** SIGKILL: the end of a worker's session tells of its crash, and its tasks are put right as they say. */
import { describe, expect, test, vi } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { killWhile } from "../support/heart-scenes.ts";
import { KEEPS_AHEAD, SCALED, startWorker, task, type WorkerProcess } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 60_000 });

const TASKS = [
  { handler: "hold", name: "failing", onCrash: "fail" },
  { handler: "hold", name: "retried", onCrash: "retry", retry: { delay: 100, jitter: 0 } },
  { handler: "hold", name: "requeued", onCrash: "requeue" },
] as const;

/** Two workers with the settings as they come; the first has begun the task, and is killed. */
async function killedWith(
  name: (typeof TASKS)[number]["name"],
  options: { exclusiveKey?: string } = {},
): Promise<{ database: CrashDatabase; first: WorkerProcess; second: WorkerProcess; id: string }> {
  const database = await openCrashDatabase();
  const first = await startWorker({ url: database.url, tasks: TASKS, work: { concurrency: 1 } });
  const id = await database.everbeat.enqueue(task(name), {}, options);
  await first.heard({ handler: "begun", taskId: id });
  await eventually(async () => (await database.replica(first.replicaId)).vitals?.inHand === 1);
  const second = await startWorker({ url: database.url, tasks: TASKS, work: { concurrency: 1 } });
  await first.kill();
  await database.untilStatus(first.replicaId, "dead");
  return { database, first, second, id };
}

describe("a worker that is killed in the middle of its tasks", () => {
  test("is known to be dead by its session, and leaves a record of how it was", async () => {
    const { database, first, id } = await killedWith("failing");
    const { death, vitals } = await database.replica(first.replicaId);
    expect(death).toMatchObject({ because: "session-lost", silentForMs: expect.any(Number), vitals });
    const ended = await eventually(() => database.everbeat.tasks.show(id), {
      until: ({ state }) => state === "failed",
    });
    expect(ended).toMatchObject({ attempt: 1, failures: 0, replicaId: first.replicaId });
    expect(await database.crashesOf(id)).toBe(1);
    const [{ id: machineId, hostname } = { id: "", hostname: "" }] = await database.everbeat.recovery.machines();
    expect(ended.error).toMatchObject({
      code: "WORKER_CRASHED",
      replicaId: first.replicaId,
      machineId,
      hostname,
      because: "session-lost",
      silentForMs: expect.any(Number),
      vitals: { inHand: 1, rss: expect.any(Number), memoryLimit: expect.any(Number), blockedForMs: expect.any(Number) },
    });
  });

  test.each(["retried", "requeued"] as const)(
    "has its task %s by another: the next attempt, a crash and no failure",
    async (name) => {
      const { database, first, second, id } = await killedWith(name);
      await second.heard({ handler: "begun", taskId: id });
      const again = await database.everbeat.tasks.show(id);
      expect(again).toMatchObject({ state: "running", attempt: 2, failures: 0, replicaId: second.replicaId });
      expect(await database.crashesOf(id)).toBe(1);
      expect(again.attempts[0]).toMatchObject({
        attempt: 1,
        replicaId: first.replicaId,
        outcome: "crashed",
        error: { code: "WORKER_CRASHED" },
      });
      second.release();
      expect(await database.everbeat.result(id, { timeout: 10_000 })).toBe("held");
    },
  );

  test("is not repeated for ever: a task that crashes its workers is in quarantine when its crash budget is spent", async () => {
    const database = await openCrashDatabase();
    const open = { recovery: { ...SCALED, sessionGrace: 300, crashBudget: 2 } };
    const start = () => startWorker({ url: database.url, open, tasks: TASKS, work: { concurrency: 1 } });
    const id = await database.everbeat.enqueue(task("requeued"), {});
    for (let crash = 0; crash < 2; crash++) {
      const worker = await start();
      await worker.heard({ handler: "begun", taskId: id });
      await worker.kill();
    }
    await start();
    const ended = await eventually(() => database.everbeat.tasks.show(id), {
      until: ({ state }) => state === "failed",
    });
    expect(ended).toMatchObject({ attempt: 2, failures: 0, error: { code: "POISONED" } });
    expect(ended.error?.message).toContain("crash budget is spent");
  });

  test("frees its exclusive key and its place in a limited queue in the very transaction that ends its task", async () => {
    const database = await openCrashDatabase();
    const { everbeat } = database;
    await everbeat.queues.set("narrow", { concurrency: 1 });
    const tasks = [{ handler: "hold", name: "narrow" }] as const;
    const first = await startWorker({ url: database.url, tasks });
    const id = await everbeat.enqueue(task("narrow"), {}, { queue: "narrow", exclusiveKey: "one" });
    await first.heard({ handler: "begun", taskId: id });
    const next = await everbeat.enqueue(task("narrow"), {}, { exclusiveKey: "one" });
    const crowded = await everbeat.enqueue(task("narrow"), {}, { queue: "narrow" });
    await eventually(async () => (await everbeat.tasks.show(next)).isParked);
    // Sweeps, and does not know the task: what the recovery wrote stays as it is.
    await startWorker({ url: database.url, tasks: [{ handler: "quick" }] });
    await first.kill();
    await eventually(async () => (await everbeat.tasks.show(id)).state === "failed");
    const written = await database.query(
      `select (select xmin::text from everbeat.ended where task_id = $1) = (select xmin::text from everbeat.ready where task_id = $2) as together,
              (select count(*)::int from everbeat.running) as held`,
      [id, next],
    );
    expect(written).toEqual([{ together: true, held: 0 }]);
    const third = await startWorker({ url: database.url, tasks });
    for (const taskId of [next, crowded]) await third.heard({ handler: "begun", taskId });
  });

  test("gives back what it had claimed and not begun, to its place and with no attempt spent", async () => {
    const database = await openCrashDatabase();
    const work = { concurrency: 1, prefetch: 3, ...KEEPS_AHEAD };
    const first = await startWorker({ url: database.url, tasks: TASKS, work });
    const ids = await database.everbeat.enqueueMany(task("failing"), [{}, {}, {}]);
    const states = () => Promise.all(ids.map(async (id) => (await database.everbeat.tasks.show(id)).state));
    await killWhile(first, async () => (await states()).sort().join() === "claimed,claimed,running");
    const second = await startWorker({ url: database.url, tasks: [{ handler: "quick" }] });
    await database.untilStatus(first.replicaId, "dead");
    const shown = await eventually(() => Promise.all(ids.map((id) => database.everbeat.tasks.show(id))), {
      until: (all) =>
        all
          .map(({ state }) => state)
          .sort()
          .join() === "failed,pending,pending",
    });
    for (const { state, attempt, failures, attempts, id } of shown) {
      if (state === "failed") continue;
      expect({ attempt, failures, attempts }).toEqual({ attempt: 0, failures: 0, attempts: [] });
      expect(await database.crashesOf(id)).toBe(0);
    }
    const actions = () => second.messages.filter(({ event }) => event === "task.recovered").map(({ action }) => action);
    await eventually(() => actions().sort().join(), { until: (all) => all === "failed,released,released" });
  });
});

test("where sessions do not count, a killed worker is dead by its silence, and no sooner than that", async () => {
  const database = await openCrashDatabase();
  const open = { recovery: { ...SCALED, sessionEvidence: false } };
  const [first, second] = [
    await startWorker({ url: database.url, tasks: TASKS, open, work: { concurrency: 1 } }),
    await startWorker({ url: database.url, tasks: TASKS, open, work: { concurrency: 1 } }),
  ];
  const ids = await database.everbeat.enqueueMany(task("requeued"), [{}, {}]);
  const begun = await first.heard({ handler: "begun" });
  await first.kill();
  const { death, died_at: diedAt, beat_at: beatAt } = await database.untilStatus(first.replicaId, "dead");
  expect(death).toMatchObject({ because: "silent" });
  expect(Number(diedAt) - Number(beatAt)).toBeGreaterThan(3_000);
  expect(ids).toContain(begun.taskId);
  second.release();
  await second.heard({ handler: "begun", taskId: begun.taskId as string, attempt: 2 });
});

/** A task that kills every worker that takes it: found out, put into quarantine, and nobody else pays for it. */
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { forkWorker, PATIENT, startWorker, task, type WorkerProcessOptions } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 180_000 });

const RECOVERY = PATIENT;
const TASKS = [
  { handler: "die", name: "poison", onCrash: "requeue" },
  { handler: "wait", name: "innocent", onCrash: "requeue" },
] as const;

/** Always as many workers as that: one that dies is replaced. */
function keepWorkers(options: WorkerProcessOptions, count: number): void {
  let isOver = false;
  onTestFinished(() => {
    isOver = true;
  });
  const keep = async () => {
    // Not waited for until it is ready: its first task may kill it before that.
    while (!isOver) await forkWorker(options).exited;
  };
  // A worker that is started when the test is over has no database any more.
  for (let index = 0; index < count; index++) keep().catch((error) => isOver || Promise.reject(error));
}

async function untilEnded(database: CrashDatabase, ids: readonly string[]) {
  return eventually(() => Promise.all(ids.map((id) => database.everbeat.tasks.show(id))), {
    until: (all) => all.every(({ endedAt }) => endedAt !== null),
    ...{ within: 120_000, every: 100, what: "the end of all tasks" },
  });
}

const suspicions = (database: CrashDatabase, ids: readonly string[]) =>
  database.query("select from everbeat.suspicion where task_id = any ($1)", [ids]);

describe("a task that kills every worker that takes it", () => {
  test("is in quarantine after three, the other tasks of those workers complete, and none of them is charged", async () => {
    const database = await openCrashDatabase();
    const { everbeat } = database;
    await startWorker({ url: database.url, open: { recovery: RECOVERY }, tasks: [{ handler: "quick" }] });
    // They are in hand for longer than the poison takes to kill, so they are there when it does.
    const innocent = await everbeat.enqueueMany(task("innocent"), [{ ms: 600 }, { ms: 600 }, { ms: 600 }, { ms: 600 }]);
    const poison = await everbeat.enqueue(task("poison"), {}, { priority: 1 });
    const work = { concurrency: 5, prefetch: 0 };
    keepWorkers({ url: database.url, open: { recovery: RECOVERY }, tasks: TASKS, work }, 1);

    const [poisoned, ...others] = await untilEnded(database, [poison, ...innocent]);
    expect(poisoned).toMatchObject({ state: "failed", failures: 0, error: { code: "POISONED" } });
    expect(await database.crashesOf(poison)).toBe(3);
    // On a busy machine one may be taken for dead and come back.
    expect(await database.count("everbeat.replica where died_at is not null and came_back_at is null")).toBe(3);
    expect(others.map(({ state, failures }) => [state, failures])).toEqual(others.map(() => ["completed", 0]));
    for (const id of innocent) expect(await database.crashesOf(id)).toBe(0);
    expect(others.some(({ attempts }) => attempts[0]?.outcome === "crashed")).toBe(true);
    expect(await suspicions(database, innocent)).toEqual([]);

    const quarantine = await everbeat.recovery.quarantine.list();
    expect(quarantine).toMatchObject([{ id: poison, name: "poison", crashes: 3 }]);
    expect(await everbeat.recovery.review.count()).toBe(0);
    const told = await everbeat.recovery.explain(poison);
    expect(told).toMatchObject({ because: "quarantined", state: "failed" });
    expect(told.summary).toMatch(
      /went into quarantine .* ago: it was running when 3 workers or runners died, .*ended without a word/,
    );
    // They are written once the tasks were put right.
    const ended = async () =>
      (await everbeat.recovery.postMortems({ kind: "replica" })).filter(({ cause }) => cause === "process-ended");
    await eventually(ended, { until: ({ length }) => length === 3, within: 30_000 });
    const attempts = await eventually(() => everbeat.recovery.postMortems({ of: poison }), {
      ...{ until: ({ length }) => length >= 3, within: 30_000 },
    });
    expect(attempts[0]).toMatchObject({ kind: "attempt", name: "poison", taskId: poison });
    expect(attempts[0]?.evidence.join("\n")).toMatch(/no other had been at as many crashes/);

    // Run again, it has a budget as new, and spends it.
    await everbeat.tasks.retry([poison]);
    const [again] = await untilEnded(database, [poison]);
    expect(again).toMatchObject({ state: "failed", crashes: 3, error: { code: "POISONED" } });
  });

  test("is found out among two workers as well, whatever it does to them", async () => {
    const database = await openCrashDatabase();
    const { everbeat } = database;
    const innocent = await everbeat.enqueueMany(
      task("innocent"),
      Array.from({ length: 12 }, (_, index) => ({ ms: 100 + index * 40 })),
    );
    const poison = await everbeat.enqueue(task("poison"), { how: "exit" }, { priority: -1 });
    const work = { concurrency: 4, prefetch: 2 };
    keepWorkers({ url: database.url, open: { recovery: RECOVERY }, tasks: TASKS, work }, 2);
    const [poisoned, ...others] = await untilEnded(database, [poison, ...innocent]);
    expect(poisoned).toMatchObject({ state: "failed", crashes: 3, error: { code: "POISONED" } });
    for (const { state, id } of others) {
      expect(state).toBe("completed");
      expect(await database.crashesOf(id)).toBe(0);
    }
  });
});

/** A handler that makes its own worker leave in good order, again and again: that is a crash like any other. */
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { type SignalInput, startSupervisor, task as underSupervisor } from "../support/supervisor.ts";
import { forkWorker, PATIENT, startWorker, task, type WorkerProcessOptions } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 180_000 });

const TASKS = [
  { handler: "die", name: "leaver", onCrash: "requeue" },
  { handler: "wait", name: "innocent", onCrash: "requeue" },
] as const;

/** One worker at a time, until the test is over. Returns how many there were. */
function keepWorker(options: WorkerProcessOptions): () => number {
  let isOver = false;
  let count = 0;
  onTestFinished(() => {
    isOver = true;
  });
  const keep = async () => {
    for (; !isOver; count++) await forkWorker(options).exited;
  };
  keep().catch((error) => isOver || Promise.reject(error));
  return () => count;
}

const untilEnded = ({ everbeat }: CrashDatabase, id: string) =>
  eventually(() => everbeat.tasks.show(id), {
    until: ({ endedAt }) => endedAt !== null,
    ...{ within: 120_000, every: 100, what: "the end of the task" },
  });

describe("a handler that ends its own worker", () => {
  test.each([
    ["by process.exit(0)", "exit-well"],
    ["by SIGTERM", "terminate"],
    ["by SIGTERM with an imported kill()", "import and terminate"],
    ["by SIGHUP", "hang up"],
    ["by worker.stop()", "stop"],
    ["by everbeat.close()", "close"],
    ["by everbeat.close({ now: true })", "close now"],
    ["by SIGTERM, at which the application exits before its worker has left", "terminate, and exit at SIGTERM"],
    ["by SIGTERM and then by process.exit(0)", "terminate, then exit"],
    ["by SIGTERM and then by SIGSEGV", "terminate, then segv"],
  ])("%s is in quarantine after three workers", async (_, how) => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    await startWorker({ url, open: { recovery: PATIENT }, tasks: [{ handler: "quick" }] });
    const id = await everbeat.enqueue(task("leaver"), { how });
    const beside = await everbeat.enqueue(task("innocent"), { ms: 2_000 });
    const work = { concurrency: 2, prefetch: 0, shutdownGrace: 300, abortGrace: 300 };
    const workers = keepWorker({ url, open: { recovery: PATIENT }, tasks: TASKS, work });
    const shown = await untilEnded(database, id);
    expect(shown).toMatchObject({ state: "failed", attempt: 3, crashes: 3, error: { code: "POISONED" } });
    expect(workers()).toBeLessThanOrEqual(3);
    expect(await untilEnded(database, beside)).toMatchObject({ state: "completed", crashes: 0 });
    await database.expectSound();
  });

  test("by SIGTERM is told so in the error of each attempt", async () => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    const id = await everbeat.enqueue(task("leaver"), { how: "terminate" });
    const work = { shutdownGrace: 300, abortGrace: 300 };
    // What may not be repeated fails, and has to be looked at.
    await forkWorker({ url, tasks: [{ handler: "die", name: "leaver" }], work }).exited;
    const shown = await everbeat.tasks.show(id);
    expect(shown).toMatchObject({ state: "failed", crashes: 1, error: { because: "stopped-by-task" } });
    expect(shown.error?.message).toMatch(/^The worker that ran this task on .* is dead: this task told it to stop\. /);
    expect(await everbeat.recovery.review.count()).toBe(1);
  });

  test.each(["terminate", "terminate, then exit"])(
    "in a batch (%s) makes suspects of all in it, of whom only the one is convicted",
    async (how) => {
      const database = await openCrashDatabase();
      const { everbeat, url } = database;
      const hows = ["return", how, "return"];
      const ids = await everbeat.enqueueMany(
        task("leaver"),
        hows.map((how) => ({ how })),
      );
      const work = { concurrency: 3, shutdownGrace: 300, abortGrace: 300 };
      const tasks = [{ handler: "die", name: "leaver", onCrash: "requeue", batchSize: 3 }] as const;
      keepWorker({ url, open: { recovery: PATIENT }, tasks, work });
      const ended = await Promise.all(ids.map((id) => untilEnded(database, id)));
      expect(ended.map(({ state, attempt, crashes }) => ({ state, attempt, crashes }))).toEqual([
        { state: "completed", attempt: 2, crashes: 0 },
        { state: "failed", attempt: 3, crashes: 3 },
        { state: "completed", attempt: 2, crashes: 0 },
      ]);
      await database.expectSound();
    },
  );

  test("and ends well has done nothing wrong", async () => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    const id = await everbeat.enqueue(task("leaver"), { how: "terminate-and-return" });
    await forkWorker({ url, tasks: TASKS }).exited;
    expect(await everbeat.tasks.show(id)).toMatchObject({ state: "completed", attempt: 1, crashes: 0 });
  });
});

describe("a handler under a supervisor", () => {
  const supervised = async (how: SignalInput = {}) => {
    const database = await openCrashDatabase();
    const id = await database.everbeat.enqueue(underSupervisor("signal"), how);
    const grace = ["--shutdown-grace", "300ms", "--abort-grace", "300ms"];
    const supervisor = await startSupervisor({ url: database.url, processes: 1, arguments: grace });
    return { database, id, supervisor };
  };

  test.each<[string, SignalInput]>([
    ["that signals its own worker", {}],
    ["that signals it with a kill() that it has kept since before anybody watched", { who: "kept" }],
    ["that calls the listeners of the signal", { who: "listeners" }],
    ["that closes the channel to its supervisor", { who: "channel" }],
  ])("%s, which is started again each time, is in quarantine after three", async (_, how) => {
    const { database, id } = await supervised(how);
    expect(await untilEnded(database, id)).toMatchObject({ crashes: 3, attempt: 3, error: { code: "POISONED" } });
  });

  test.each<SignalInput>([
    { signal: "SIGTERM" },
    { signal: "SIGKILL" },
    { signal: "SIGTERM", finally: "exit" },
    { signal: "SIGTERM", finally: "kill" },
    { signal: "SIGTERM", finally: "block and kill" },
  ])("that sends its supervisor a signal is charged with that stop: %j", async (how) => {
    const { database, id, supervisor } = await supervised({ who: "parent", ...how });
    await supervisor.ended;
    const shown = await eventually(() => database.everbeat.tasks.show(id), {
      ...{ until: ({ state }) => state === "pending", within: 30_000 },
    });
    expect(shown).toMatchObject({ attempt: 1, crashes: 1 });
  });

  test("that does so beside another is charged alone", async () => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    const beside = await everbeat.enqueue(underSupervisor("hold"), {});
    const supervisor = await startSupervisor({ url, processes: 1, arguments: ["--shutdown-grace", "300ms"] });
    await eventually(() => everbeat.tasks.show(beside), { until: ({ state }) => state === "running", within: 60_000 });
    const id = await everbeat.enqueue(underSupervisor("signal"), { who: "parent", finally: "kill" });
    await supervisor.ended;
    for (const [each, crashes] of [
      [id, 1],
      [beside, 0],
    ] as const) {
      const shown = await eventually(() => everbeat.tasks.show(each), {
        ...{ until: ({ state }) => state === "pending", within: 30_000 },
      });
      expect(shown).toMatchObject({ attempt: 1, crashes });
    }
    expect(await database.query("select from everbeat.suspicion where task_id = $1", [beside])).toEqual([]);
  });
});

describe("a stop from outside charges nobody, however often", () => {
  test("by SIGTERM", async () => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    const id = await everbeat.enqueue(task("leaver"), { how: "wait" });
    for (let attempt = 1; attempt <= 5; attempt++) {
      const worker = forkWorker({ url, tasks: TASKS, work: { shutdownGrace: 100, abortGrace: 100 } });
      await worker.heard({ handler: "begun", taskId: id });
      worker.signal("SIGTERM");
      await worker.exited;
      expect(await everbeat.tasks.show(id)).toMatchObject({ state: "pending", attempt, crashes: 0 });
    }
  });

  test("by a supervisor that kills a child which cannot even say that it is leaving", async () => {
    const { everbeat, url } = await openCrashDatabase();
    const id = await everbeat.enqueue(underSupervisor("block"), {});
    const supervisor = await startSupervisor({ url, processes: 1 });
    await eventually(() => everbeat.tasks.show(id), { until: ({ state }) => state === "running", within: 60_000 });
    // To leave, to leave now, and to be killed.
    for (const after of [0, 1]) {
      supervisor.signal("SIGTERM");
      await supervisor.said({ event: "child.leaving" }, { after });
    }
    supervisor.signal("SIGTERM");
    await supervisor.said({ event: "child.exited", signal: "SIGKILL" });
    const shown = await eventually(() => everbeat.tasks.show(id), {
      ...{ until: ({ state }) => state === "pending", within: 30_000 },
    });
    expect(shown).toMatchObject({ attempt: 1, crashes: 0 });
  });

  test("by a supervisor whose child is killed by somebody else before it could leave", async () => {
    const { everbeat, url } = await openCrashDatabase();
    const id = await everbeat.enqueue(underSupervisor("hold"), {});
    const supervisor = await startSupervisor({ url, processes: 1 });
    await eventually(() => everbeat.tasks.show(id), { until: ({ state }) => state === "running", within: 60_000 });
    supervisor.signal("SIGTERM");
    const { pid } = await supervisor.said({ event: "child.leaving" });
    process.kill(pid as number, "SIGKILL");
    const shown = await eventually(() => everbeat.tasks.show(id), {
      ...{ until: ({ state }) => state === "pending", within: 30_000 },
    });
    expect(shown).toMatchObject({ attempt: 1, crashes: 0 });
  });

  test("by SIGTERM, at which the application exits before its worker has left", async () => {
    const database = await openCrashDatabase();
    const { everbeat, url } = database;
    await startWorker({ url, open: { recovery: PATIENT }, tasks: [{ handler: "quick" }] });
    const id = await everbeat.enqueue(task("leaver"), { how: "wait, and exit at SIGTERM" });
    for (let attempt = 1; attempt <= 4; attempt++) {
      const worker = forkWorker({ url, open: { recovery: PATIENT }, tasks: TASKS });
      await worker.heard({ handler: "begun", taskId: id });
      await worker.heard({ handler: "waits", taskId: id });
      worker.signal("SIGTERM");
      expect(await worker.exited).toEqual({ code: 0, signal: null });
      const isBack = () => everbeat.tasks.show(id);
      const shown = await eventually(isBack, { until: ({ state }) => state === "pending", within: 30_000 });
      expect(shown).toMatchObject({ attempt, crashes: 0 });
    }
  });
});

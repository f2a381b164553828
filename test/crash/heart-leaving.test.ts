/** Leaving, what is kept of those who left, and recovery by hand where it is not automatic. */
import { describe, expect, test, vi } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { killWhile } from "../support/heart-scenes.ts";
import { KEEPS_AHEAD, PATIENT, SCALED, startWorker, task } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 60_000 });

const HOLD = [{ handler: "hold", onCrash: "requeue" }] as const;

describe("a worker that is told to stop", () => {
  test("gives back at once what it has not begun, and is offline as soon as the rest has ended", async () => {
    const database = await openCrashDatabase();
    const { everbeat } = database;
    const worker = await startWorker({
      url: database.url,
      tasks: HOLD,
      work: { concurrency: 1, prefetch: 2, ...KEEPS_AHEAD },
    });
    const ids = await everbeat.enqueueMany(task("hold"), [{}, {}, {}]);
    const states = async () =>
      (await Promise.all(ids.map((id) => everbeat.tasks.show(id)))).map(({ state }) => state).sort();
    await eventually(async () => (await states()).join() === "claimed,claimed,running", { every: 5 });
    worker.signal("SIGTERM");
    await eventually(async () => (await states()).join() === "pending,pending,running", { within: 30_000 });
    await database.untilStatus(worker.replicaId, "draining");
    worker.release();
    await database.untilStatus(worker.replicaId, "offline");
    await worker.exited;
    expect(await states()).toEqual(["completed", "pending", "pending"]);
    expect(await database.deaths()).toBe(0);
  });

  test("is offline at once where it has nothing in hand, and what was last seen of it stays", async () => {
    const database = await openCrashDatabase();
    const open = { recovery: SCALED };
    const worker = await startWorker({ url: database.url, tasks: HOLD, open });
    await startWorker({ url: database.url, tasks: [{ handler: "quick" }], open });
    worker.signal("SIGTERM");
    const left = await database.untilStatus(worker.replicaId, "offline");
    await worker.exited;
    const sweptAt = (await database.everbeat.recovery.listening())?.sweptAt ?? new Date();
    await eventually(
      async () => Number((await database.everbeat.recovery.listening())?.sweptAt) - Number(sweptAt) > 1_500,
    );
    const { seen_at, beat_at, status } = await database.replica(worker.replicaId);
    expect({ seen_at, beat_at, status }).toEqual({ seen_at: left.seen_at, beat_at: left.beat_at, status: "offline" });
  });
});

test("a heart goes on beating while the worker's own handlers have all of its connections", async () => {
  const database = await openCrashDatabase();
  const open = { recovery: PATIENT };
  const worker = await startWorker({
    ...{ url: database.url, open, poolSize: 3, work: { concurrency: 3 } },
    tasks: [{ handler: "hog", onCrash: "requeue" }],
  });
  await startWorker({ url: database.url, tasks: [{ handler: "quick" }], open });
  const ids = await database.everbeat.enqueueMany(task("hog"), [{}, {}, {}]);
  for (const taskId of ids) await worker.heard({ handler: "begun", taskId });
  const { beat_at: begunAt } = await database.replica(worker.replicaId);
  // For longer than it takes to be dead.
  await eventually(async () => Number((await database.replica(worker.replicaId)).beat_at) - Number(begunAt) > 9_000, {
    within: 40_000,
  });
  expect(await database.deaths()).toBe(0);
  expect(worker.messages.filter(({ event }) => event === "replica.fenced")).toEqual([]);
  worker.release();
  for (const id of ids) await database.everbeat.result(id, { timeout: 10_000 });
});

describe("old replicas", () => {
  test("are removed when they own nothing, their beats with their own age, and machines that have none left", async () => {
    const database = await openCrashDatabase();
    const held = { ...SCALED, autoFailStaleRunning: false };
    const here = { url: database.url, open: { recovery: held } };
    const idle = await startWorker({ ...here, tasks: [{ handler: "quick" }], machineId: "idle" });
    const owner = await startWorker({ ...here, tasks: HOLD, machineId: "owner" });
    const id = await database.everbeat.enqueue(task("hold"), {});
    await owner.heard({ handler: "begun", taskId: id });
    idle.signal("SIGTERM");
    await database.untilStatus(idle.replicaId, "offline");
    const purging = { ...held, purgeAge: "2s", purgeInterval: "1s", historyAge: "1s" } as const;
    const reaper = await startWorker({
      ...{ url: database.url, tasks: [{ handler: "quick" }], open: { recovery: purging }, machineId: "reaper" },
    });
    await owner.kill();
    await database.untilStatus(owner.replicaId, "dead");
    const known = async () => (await database.everbeat.replicas()).map((replica) => replica.id).sort();
    await eventually(async () => (await known()).join() === [owner.replicaId, reaper.replicaId].sort().join(), {
      within: 20_000,
    });
    const machines = async () => (await database.everbeat.recovery.machines()).map(({ id: machine }) => machine).sort();
    await eventually(async () => (await machines()).join() === "owner,reaper", { within: 20_000 });
    // Dead for longer than the age as well, and kept: it owns a task.
    await eventually(
      async () =>
        (await database.query("select from everbeat.replica where died_at < clock_timestamp() - interval '5 seconds'"))
          .length,
    );
    expect(await known()).toContain(owner.replicaId);
    expect(await machines()).toEqual(["owner", "reaper"]);
    expect(await database.query("select from everbeat.beat_history where replica_id = $1", [idle.replicaId])).toEqual(
      [],
    );
    await database.everbeat.recovery.failStaleRunning();
    await eventually(async () => (await known()).join() === reaper.replicaId, { within: 20_000 });
    await eventually(async () => (await machines()).join() === "reaper", { within: 20_000 });
  });
});

test("the view heartbeats has a line per task and role, without a write per task", async () => {
  const database = await openCrashDatabase();
  const worker = await startWorker({
    url: database.url,
    tasks: HOLD,
    work: { concurrency: 1, prefetch: 1, ...KEEPS_AHEAD },
  });
  const ids = await database.everbeat.enqueueMany(task("hold"), [{}, {}]);
  const look = () =>
    database.query(
      `select task_id::text, sender_id::text, role, sent_at, h.beat_at, hostname, pid
       from everbeat.heartbeats join everbeat.heart h on h.replica_id = sender_id order by role desc`,
    );
  const lines = await eventually(look, { until: (rows) => rows.map(({ role }) => role).join() === "runner,claimer" });
  expect(lines).toMatchObject(
    ["runner", "claimer"].map((role) => ({ sender_id: worker.replicaId, role, pid: worker.pid })),
  );
  expect(new Set(lines.map(({ task_id: taskId }) => taskId))).toEqual(new Set(ids));
  for (const line of lines) expect(line["sent_at"]).toEqual(line["beat_at"]);
});

describe("where recovery is switched off", () => {
  test("tasks of the dead stay as they are until somebody recovers them by hand", async () => {
    const database = await openCrashDatabase({ recovery: SCALED });
    const { recovery, tasks } = database.everbeat;
    const off = { ...SCALED, autoFailStaleRunning: false, autoRequeueStaleClaimed: false };
    const options = { url: database.url, open: { recovery: off } };
    const watching = await startWorker({ ...options, tasks: [{ handler: "quick" }] });
    const worker = await startWorker({
      ...options,
      tasks: HOLD,
      work: { concurrency: 1, prefetch: 1, ...KEEPS_AHEAD },
    });
    const ids = await database.everbeat.enqueueMany(task("hold"), [{}, {}]);
    const states = async () => (await Promise.all(ids.map((id) => tasks.show(id)))).map(({ state }) => state).sort();
    await killWhile(worker, async () => (await states()).join() === "claimed,running");
    await database.untilStatus(worker.replicaId, "dead");
    const swept = async () => Number((await recovery.listening())?.sweptAt);
    const deadAt = await swept();
    await eventually(async () => (await swept()) - deadAt > 1_000);
    expect(await states()).toEqual(["claimed", "running"]);
    expect(watching.messages.filter(({ event }) => event === "task.recovered")).toEqual([]);

    const stale = await recovery.findStale();
    expect(stale.map(({ state }) => state).sort()).toEqual(["claimed", "running"]);
    for (const one of stale)
      expect(one).toMatchObject({ owner: worker.replicaId, ownerStatus: "dead", hostname: expect.any(String) });
    const idOf = (state: string) => stale.find((one) => one.state === state)?.id;
    const [claimed, running] = [
      { count: 1, ids: [idOf("claimed")] },
      { count: 1, ids: [idOf("running")] },
    ];
    expect(await recovery.requeueStaleClaimed({ dryRun: true })).toEqual(claimed);
    expect(await recovery.failStaleRunning({ dryRun: true })).toEqual(running);
    expect(await states()).toEqual(["claimed", "running"]);
    expect(await recovery.requeueStaleClaimed()).toEqual(claimed);
    expect(await recovery.failStaleRunning()).toEqual(running);
    expect(await states()).toEqual(["failed", "pending"]);
    expect(await tasks.show(running.ids[0] as string)).toMatchObject({
      error: { code: "WORKER_CRASHED", because: "by-hand", message: expect.stringContaining("was dead") },
    });
    // It has cost its worker, whoever said so; what was only claimed has not.
    expect(await database.crashesOf(running.ids[0] as string)).toBe(1);
    expect(await database.crashesOf(claimed.ids[0] as string)).toBe(0);
    expect(await tasks.show(claimed.ids[0] as string)).toMatchObject({ attempt: 0, failures: 0 });
    expect(await recovery.findStale()).toEqual([]);
  });
});

describe("by hand, whatever silence is asked for", () => {
  test("a task in the hands of a worker that is well stays there", async () => {
    const database = await openCrashDatabase();
    const { recovery } = database.everbeat;
    const worker = await startWorker({ url: database.url, tasks: HOLD, open: { recovery: { profile: "quick" } } });
    const id = await database.everbeat.enqueue(task("hold"), {});
    await worker.heard({ handler: "begun", taskId: id });
    const silentFor = async () => (await database.everbeat.replicas())[0]?.silentForMs ?? 0;
    await eventually(async () => (await silentFor()) > 0);
    expect(await recovery.findStale({ after: 0 })).toEqual([]);
    expect(await recovery.failStaleRunning({ after: 0 })).toEqual({ count: 0, ids: [] });
    expect((await database.everbeat.tasks.show(id)).state).toBe("running");
  });

  test("a task failed under a worker that stands still and is not dead yet is no crash, and its outcome is refused", async () => {
    const database = await openCrashDatabase();
    const { everbeat } = database;
    const open = { recovery: { ...SCALED, runningStaleThreshold: 60_000 } };
    const worker = await startWorker({ url: database.url, tasks: HOLD, open });
    const id = await everbeat.enqueue(task("hold"), {});
    await worker.heard({ handler: "begun", taskId: id });
    await database.untilHeard(worker.replicaId);
    worker.signal("SIGSTOP");
    const failing = () => everbeat.recovery.failStaleRunning({ after: 0 });
    expect(await eventually(failing, { until: ({ count }) => count > 0, within: 30_000 })).toEqual({
      count: 1,
      ids: [id],
    });
    expect(await everbeat.tasks.show(id)).toMatchObject({
      ...{ state: "failed", attempt: 1, failures: 0 },
      error: { code: "WORKER_CRASHED", because: "by-hand", message: expect.stringContaining("was alive") },
    });
    expect(await database.crashesOf(id)).toBe(0);
    worker.signal("SIGCONT");
    await worker.heard({ handler: "aborted", taskId: id });
    expect((await everbeat.tasks.show(id)).state).toBe("failed");
  });

  test("a task of a worker that was killed, and whose session has ended, is taken, and its worker was dead", async () => {
    const database = await openCrashDatabase();
    const { everbeat } = database;
    const worker = await startWorker({ url: database.url, tasks: HOLD });
    const id = await everbeat.enqueue(task("hold"), {});
    await worker.heard({ handler: "begun", taskId: id });
    await database.untilHeard(worker.replicaId);
    await worker.kill();
    const failing = () => everbeat.recovery.failStaleRunning({ after: "1s" });
    await eventually(failing, { until: ({ count }) => count > 0, within: 30_000 });
    const { error } = await everbeat.tasks.show(id);
    expect(error).toMatchObject({ because: "by-hand", message: expect.stringContaining("was dead") });
    // Long before its silence would have said so.
    expect((error as { silentForMs?: number } | null)?.silentForMs).toBeLessThan(13_000);
    expect(await database.crashesOf(id)).toBe(1);
  });
});

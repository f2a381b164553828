/** No worker is left, or none has ever been: who listens, who does not, and what is said about it. */
import { describe, expect, test, vi } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import { heartLimits } from "../../src/recovery/limits.ts";
import { openCrashDatabase, openThrough } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startSupervisor } from "../support/supervisor.ts";
import { SCALED, startWorker, task } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 90_000 });

const TASKS = [
  { handler: "hold", name: "requeued", onCrash: "requeue" },
  { handler: "hold", name: "failing", onCrash: "fail" },
] as const;

describe("when the last worker of all is killed", () => {
  test.each([
    ["by the end of its session", "session-lost", {}],
    ["by its silence, where sessions do not count", "silent", { sessionEvidence: false }],
  ])("a process that listens finds it dead %s, and recovers its tasks", async (_, because, more) => {
    const database = await openCrashDatabase();
    // Its own settings are those of nobody: the worker's count.
    const own = { profile: "cpu-heavy" } as const;
    const listener = await openThrough(database.url, { runsServices: true, recovery: own });
    const recovered: unknown[] = [];
    listener.on("task.recovered", ({ taskId, action }) => recovered.push({ taskId, action }));
    const open = { recovery: { ...SCALED, ...more } };
    const worker = await startWorker({ url: database.url, tasks: TASKS, open });
    const [requeued, failing] = [
      await database.everbeat.enqueue(task("requeued"), {}),
      await database.everbeat.enqueue(task("failing"), {}),
    ];
    for (const taskId of [requeued, failing]) await worker.heard({ handler: "begun", taskId });
    await eventually(async () => (await database.replica(worker.replicaId)).vitals, { what: "a beat of its own" });
    await worker.kill();
    const { death } = await database.untilStatus(worker.replicaId, "dead");
    expect(death).toMatchObject({ because });
    // Too soon for the listener's own settings.
    const promise = { intervalMs: null, promiseMs: null, sessionPromiseMs: null };
    const { deadAfterMs = 0 } = heartLimits(promise, checkRecovery(own, new Problems()), "running");
    expect((death as { silentForMs: number }).silentForMs).toBeLessThan(deadAfterMs);
    await eventually(() => recovered.length === 2);
    expect(recovered).toContainEqual({ taskId: requeued, action: "retried" });
    expect(recovered).toContainEqual({ taskId: failing, action: "failed" });
    expect(await listener.recovery.machines()).toMatchObject([{ isOnline: false, unheardSince: null }]);

    // Whoever comes later takes what was put right.
    const next = await startWorker({ url: database.url, tasks: TASKS, open });
    await next.heard({ handler: "begun", taskId: requeued, attempt: 2 });
    await database.expectSound();
  });

  test("and nobody listens, it is said since when, and not that it is online", async () => {
    const database = await openCrashDatabase();
    const { everbeat } = database;
    const worker = await startWorker({ url: database.url, tasks: TASKS, open: { recovery: SCALED } });
    await eventually(() => everbeat.recovery.listening(), { what: "a sweep" });
    expect(await everbeat.replicas()).toMatchObject([{ status: "online", unheardSince: null }]);
    expect(await everbeat.recovery.machines()).toMatchObject([{ isOnline: true, unheardSince: null }]);
    await worker.kill();
    const listened = (await everbeat.recovery.listening())?.sweptAt;
    const isUnheard = async () => (await everbeat.replicas())[0]?.unheardSince;
    expect(await eventually(isUnheard, { within: 20_000, what: "an end of patience" })).toEqual(listened);
    expect(await everbeat.recovery.machines()).toMatchObject([{ isOnline: false, unheardSince: listened }]);
    // From the moment that somebody does, it is heard, or not, again.
    await using listener = await openThrough(database.url, { runsServices: true });
    await database.untilStatus(worker.replicaId, "dead");
    expect(await listener.replicas()).toMatchObject([{ status: "dead", unheardSince: null }]);
  });
});

test("a listener that is closed listens no more, and another of them takes over", async () => {
  const database = await openCrashDatabase();
  const open = () => openThrough(database.url, { runsServices: true, recovery: { checkInterval: 50 } });
  /** Who sweeps from now on, in so many sweeps. */
  const sweepers = async (count: number) => {
    const seen = new Map<number, string | null>();
    const before = (await database.everbeat.recovery.listening())?.sweptAt.getTime() ?? 0;
    const look = async () => {
      const now = await database.everbeat.recovery.listening();
      if (now && now.sweptAt.getTime() > before) seen.set(now.sweptAt.getTime(), now.sweptBy);
      return seen.size >= count;
    };
    await eventually(look, { every: 10, what: `${count} sweeps` });
    return [...new Set(seen.values())];
  };
  const one = await open();
  const first = await sweepers(1);
  const other = await open();
  await one.close();
  const second = await sweepers(5);
  expect(second).toHaveLength(1);
  expect(second).not.toEqual(first);
  await using _last = await open();
  await other.close();
  const third = await sweepers(5);
  expect(third).toHaveLength(1);
  expect([...first, ...second]).not.toContain(third[0]);
});

test("a supervisor listens: a worker elsewhere that is killed is found dead though its own children have all gone", async () => {
  const database = await openCrashDatabase();
  const supervisor = await startSupervisor({ url: database.url, processes: 1 });
  const { replicaId: childId, pid } = await supervisor.said({ event: "child.ready" });
  const elsewhere = await startWorker({ url: database.url, tasks: TASKS });
  const id = await database.everbeat.enqueue(task("failing"), {});
  await elsewhere.heard({ handler: "begun", taskId: id });
  await eventually(async () => (await database.replica(elsewhere.replicaId)).vitals);
  await supervisor.breakTasks();
  process.kill(pid as number, "SIGKILL");
  await database.untilStatus(String(childId), "dead");
  await elsewhere.kill();
  await database.untilStatus(elsewhere.replicaId, "dead");
  await eventually(async () => (await database.everbeat.tasks.show(id)).state === "failed");
});

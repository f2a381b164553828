/** `everbeat start --processes N`: children that die are known to be dead at once and followed by others; signals; orphans. */
import { describe, expect, test, vi } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { startCuttingProxy } from "../support/cutting-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { expectGivenBack } from "../support/leaving-at-once.ts";
import { startOwnServer } from "../support/own-server.ts";
import { type Line, type RunningSupervisor, startSupervisor, task, untilReady } from "../support/supervisor.ts";
import { PATIENT, startWorker } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 240_000 });

/** Only an exit can be what a death is known by: sessions and silence count much later. */
const BY_EXIT_ALONE = ["--recovery", "sessionGrace=1m,runningStaleThreshold=2m,claimedStaleThreshold=2m"];

interface Scene {
  readonly database: CrashDatabase;
  readonly supervisor: RunningSupervisor;
  readonly children: readonly Line[];
}

async function supervised(processes: number, ...more: string[]): Promise<Scene> {
  const database = await openCrashDatabase();
  const supervisor = await startSupervisor({ url: database.url, processes, arguments: [...BY_EXIT_ALONE, ...more] });
  return { database, supervisor, children: await untilReady(supervisor, processes) };
}

async function untilRunning({ database }: Scene, id: string, attempt = 1) {
  return eventually(() => database.everbeat.tasks.show(id), {
    until: (shown) => shown.state === "running" && shown.attempt === attempt,
    within: 40_000,
  });
}

/** The child that is this replica. */
function childOf({ supervisor }: Scene, replicaId: string | null): Line {
  const [line] = supervisor.lines({ event: "child.ready", replicaId: replicaId ?? "" });
  if (!line) throw new Error(`no child is replica ${replicaId}`);
  return line;
}

describe("a child that is killed", () => {
  test("is dead by its exit: its task runs elsewhere, the signal is on record, and another takes its place", async () => {
    const scene = await supervised(2);
    const { database, supervisor } = scene;
    const id = await database.everbeat.enqueue(task("hold"), {});
    const { replicaId } = await untilRunning(scene, id);
    const victim = childOf(scene, replicaId);
    process.kill(victim.pid as number, "SIGKILL");
    const { death } = await database.untilStatus(victim.replicaId as string, "dead", 40_000);
    expect(death).toMatchObject({ because: "exited", signal: "SIGKILL", exitCode: null, replicaId });
    const again = await untilRunning(scene, id, 2);
    expect(again).toMatchObject({ failures: 0, attempts: [{ outcome: "crashed", replicaId }, { outcome: "running" }] });
    expect(await database.crashesOf(id)).toBe(1);
    expect(again.replicaId).not.toBe(replicaId);
    expect(again.attempts[0]?.error).toMatchObject({ code: "WORKER_CRASHED", because: "exited", signal: "SIGKILL" });
    expect(again.attempts[0]?.error?.message).toContain("its process was ended by SIGKILL");
    const { child } = victim;
    expect(await supervisor.said({ event: "child.exited", child: child as number })).toMatchObject({
      ...{ pid: victim.pid, replicaId, signal: "SIGKILL", wasAsked: false },
    });
    expect(supervisor.lines({ event: "replica.dead" })).toMatchObject([{ replicaId, because: "exited" }]);
    expect(await supervisor.said({ event: "task.recovered" })).toMatchObject({ taskId: id, action: "retried" });
    const next = await supervisor.said({ event: "child.ready", child: child as number }, { after: 1 });
    expect(next.replicaId).not.toBe(replicaId);
    expect((await database.replica(next.replicaId as string)).status).toBe("online");
  });

  test("by its own hand leaves its exit code in the error of the task that did it", async () => {
    const scene = await supervised(1);
    const { everbeat } = scene.database;
    const id = await everbeat.enqueue(task("die"), { code: 3 });
    const ended = await eventually(() => everbeat.tasks.show(id), {
      until: ({ state }) => state === "failed",
      within: 40_000,
    });
    expect(ended.error).toMatchObject({ code: "WORKER_CRASHED", because: "exited", exitCode: 3 });
    expect(ended.error?.message).toContain("its process exited with code 3");
    await scene.supervisor.said({ event: "child.ready" }, { after: 1 });
  });

  test("while the database is away is reported when it is back", async () => {
    const server = await startOwnServer();
    const database = await openCrashDatabase({}, server.url);
    const supervisor = await startSupervisor({ url: database.url, processes: 1, arguments: BY_EXIT_ALONE });
    const [first] = await untilReady(supervisor, 1);
    await server.stop();
    process.kill(first?.pid as number, "SIGKILL");
    await supervisor.said({ event: "child.exited" });
    await supervisor.said({ event: "database.lost", child: undefined });
    expect(supervisor.lines({ event: "child.restarting" })).toEqual([]);
    await server.start();
    const { death } = await database.untilStatus(first?.replicaId as string, "dead", 40_000);
    expect(death).toMatchObject({ because: "exited", signal: "SIGKILL" });
    await supervisor.said({ event: "child.ready" }, { after: 1 });
  });
});

test("a report to which no reply comes is made again on another connection, and only then is a child started", async () => {
  const database = await openCrashDatabase();
  const proxy = await startCuttingProxy(database.url);
  const supervisor = await startSupervisor({ url: proxy.url, processes: 1, arguments: BY_EXIT_ALONE });
  const [first] = await untilReady(supervisor, 1);
  proxy.cut("to worker");
  process.kill(first?.pid as number, "SIGKILL");
  await supervisor.said({ event: "child.exited" });
  await supervisor.said({ event: "database.lost", child: undefined });
  expect(supervisor.lines({ event: "child.restarting" })).toEqual([]);
  proxy.mend();
  const { death } = await database.untilStatus(first?.replicaId as string, "dead", 60_000);
  expect(death).toMatchObject({ because: "exited", signal: "SIGKILL" });
  await supervisor.said({ event: "child.ready" }, { after: 1 });
});

test("a child that had to stop its own work while the database was away stays, and its task is not charged", async () => {
  const server = await startOwnServer();
  const database = await openCrashDatabase({}, server.url);
  const recovery = Object.entries(PATIENT).map(([name, ms]) => `${name}=${ms}`);
  const patient = ["--recovery", recovery.join(",")];
  const supervisor = await startSupervisor({ url: database.url, processes: 1, arguments: patient });
  const [before] = await untilReady(supervisor, 1);
  const id = await database.everbeat.enqueue(task("hold"), {});
  await supervisor.said({ event: "child.ready" });
  await eventually(async () => (await database.everbeat.tasks.show(id)).state === "running", { within: 20_000 });
  await server.stop();
  await supervisor.said({ event: "replica.fenced" });
  await server.start();
  const after = await supervisor.said({ event: "child.ready" }, { after: 1 });
  expect(after.pid).toBe(before?.pid);
  expect(after.replicaId).not.toBe(before?.replicaId);
  await eventually(() => database.everbeat.tasks.show(id), {
    until: ({ state, replicaId }) => state === "running" && replicaId === after.replicaId,
    within: 40_000,
  });
  expect(await database.everbeat.tasks.show(id)).toMatchObject({ failures: 0 });
  expect(await database.crashesOf(id)).toBe(0);
  // And it is known by its new name when it dies.
  process.kill(after.pid as number, "SIGKILL");
  expect((await database.untilStatus(after.replicaId as string, "dead", 40_000)).death?.["because"]).toBe("exited");
  expect(await database.deaths()).toBe(1);
});

describe("a child that ends again and again", () => {
  test("is started after longer and longer pauses, then no more: an alert, and the others go on", async () => {
    const scene = await supervised(2, "--crash-loop-after", "4");
    const { database, supervisor, children } = scene;
    await supervisor.breakTasks();
    process.kill(children[1]?.pid as number, "SIGKILL");
    expect(await supervisor.said({ event: "child.looping" })).toMatchObject({ child: 2, exitsInARow: 4 });
    const pauses = supervisor.lines({ event: "child.restarting", child: 2 }).map(({ pauseMs }) => Number(pauseMs));
    expect(pauses).toHaveLength(3);
    expect(pauses).toEqual([...pauses].sort((a, b) => a - b));
    const [alert] = await eventually(() => database.everbeat.alerts.list({ open: true }), {
      ...{ until: ({ length }) => length > 0, within: 40_000 },
    });
    expect(alert).toMatchObject({ kind: "crash-loop", message: expect.stringContaining("exited with code 7") });
    const id = await database.everbeat.enqueue(task("wait"), {});
    expect(await database.everbeat.result(id)).toBe(children[0]?.pid);

    // Once what was wrong is mended, a roll fills the empty place again, and first.
    await supervisor.mendTasks();
    supervisor.signal("SIGHUP");
    expect(await supervisor.said({ event: "roll.done" }, { within: 90_000 })).toMatchObject({ children: [2, 1] });
    await eventually(async () => (await database.everbeat.alerts.list({ open: true })).length === 0, {
      within: 40_000,
    });
  });

  test("ends the supervisor when it was the last one, and not with 0", async () => {
    const { database, supervisor, children } = await supervised(1, "--crash-loop-after", "2");
    await supervisor.breakTasks();
    process.kill(children[0]?.pid as number, "SIGKILL");
    expect((await supervisor.ended).code).toBe(1);
    expect(await database.everbeat.alerts.list({ open: true })).toMatchObject([{ kind: "crash-loop" }]);
  });
});

describe("a signal", () => {
  test("to the whole group of processes lets what runs end, and the supervisor exits with 0", async () => {
    const scene = await supervised(2);
    const { database, supervisor, children } = scene;
    const id = await database.everbeat.enqueue(task("wait"), { ms: 2_000 });
    await untilRunning(scene, id);
    // As a terminal and a service manager do; and one of them twice.
    for (const { pid } of [...children, ...children]) process.kill(pid as number, "SIGTERM");
    supervisor.signal("SIGTERM");
    expect((await supervisor.ended).code).toBe(0);
    expect(await database.everbeat.tasks.show(id)).toMatchObject({ state: "completed", attempt: 1 });
    expect(await database.crashesOf(id)).toBe(0);
    for (const { replicaId } of children) expect((await database.replica(replicaId as string)).status).toBe("offline");
    expect(await database.deaths()).toBe(0);
  });

  test("for the second time gives running tasks back at once, uncharged", async () => {
    const scene = await supervised(2);
    const { database, supervisor, children } = scene;
    const ids = await database.everbeat.enqueueMany(task("hold"), [{}, {}, {}, {}]);
    for (const id of ids) await untilRunning(scene, id);
    supervisor.signal("SIGINT");
    await supervisor.said({ event: "worker.stopping" }, { after: 1 });
    // Draining; or gone, where the other has taken all four.
    const statusOf = async ({ replicaId }: Line) => (await database.replica(replicaId as string)).status;
    await eventually(async () => !(await Promise.all(children.map(statusOf))).includes("online"));
    const toldAt = performance.now();
    supervisor.signal("SIGINT");
    await supervisor.ended;
    const tookMs = performance.now() - toldAt;
    await expectGivenBack(database.everbeat, { ids, pids: children.map(({ pid }) => pid), tookMs });
  });
});

test("a supervisor whose database is away can still be stopped", async () => {
  const server = await startOwnServer();
  const database = await openCrashDatabase({}, server.url);
  const supervisor = await startSupervisor({ url: database.url, processes: 2 });
  await untilReady(supervisor, 2);
  await server.stop();
  supervisor.signal("SIGTERM");
  await supervisor.said({ event: "child.leaving" }, { after: 1 });
  supervisor.signal("SIGTERM");
  await supervisor.ended;
  expect(supervisor.lines({ event: "child.exited" })).toHaveLength(2);
  // For whoever cleans up.
  await server.start();
});

test("children whose supervisor is killed end what they run, take nothing new, and leave", async () => {
  const scene = await supervised(2);
  const { database, supervisor, children } = scene;
  const id = await database.everbeat.enqueue(task("wait"), { ms: 2_000 });
  await untilRunning(scene, id);
  supervisor.signal("SIGKILL");
  for (const { replicaId } of children) await database.untilStatus(replicaId as string, "offline", 40_000);
  expect(await database.everbeat.tasks.show(id)).toMatchObject({ state: "completed", attempt: 1 });
  expect(await database.crashesOf(id)).toBe(0);
  // Each says why.
  const told = () => supervisor.lines({ event: "supervisor.gone" }).map(({ child }) => child);
  await eventually(() => told().length === 2);
  expect(told().sort()).toEqual([1, 2]);
  const next = await database.everbeat.enqueue(task("wait"), {});
  expect(await database.everbeat.tasks.show(next)).toMatchObject({ state: "pending", attempt: 0 });
});

describe("an exit that is reported", () => {
  test("of a worker whose heart goes on (a second copy of it) kills nobody", async () => {
    const database = await openCrashDatabase();
    const worker = await startWorker({ url: database.url, tasks: [{ handler: "hold" }] });
    const report = await database.everbeat.recovery.reportExit(worker.replicaId, { signal: "SIGKILL" });
    expect(report).toEqual({ verdict: "session-held", recovered: [] });
    expect((await database.replica(worker.replicaId)).status).toBe("online");
  });

  test("of a worker that had left, was dead before or is not on record changes nothing", async () => {
    const database = await openCrashDatabase();
    const { everbeat } = database;
    const worker = await startWorker({ url: database.url, tasks: [{ handler: "hold" }] });
    await worker.kill();
    const report = () => everbeat.recovery.reportExit(worker.replicaId, { exitCode: null, signal: "SIGKILL" });
    expect((await report()).verdict).toBe("dead");
    const before = await database.replica(worker.replicaId);
    expect((await report()).verdict).toBe("not-alive");
    expect(await database.replica(worker.replicaId)).toEqual(before);
    const nobody = "00000000-0000-4000-8000-000000000000";
    expect((await everbeat.recovery.reportExit(nobody, { exitCode: 0 })).verdict).toBe("not-alive");
    const odd = everbeat.recovery.reportExit("somebody", { exitCode: -1, signal: "kill" });
    await expect(odd).rejects.toThrow(/replicaId[\s\S]*exitCode|exitCode[\s\S]*replicaId/);
  });
});

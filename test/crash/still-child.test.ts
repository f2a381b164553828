/** A supervised child that stands still: nobody else would take its place. One that goes on by itself keeps it. */
import { expect, test, vi } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startSupervisor, task, untilReady } from "../support/supervisor.ts";
import { SCALED } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 180_000 });

async function scene() {
  const database = await openCrashDatabase();
  const recovery = Object.entries(SCALED).map(([name, value]) => `${name}=${value}`);
  const supervisor = await startSupervisor({
    ...{ url: database.url, processes: 1 },
    arguments: ["--recovery", recovery.join(",")],
  });
  const [child] = await untilReady(supervisor, 1);
  const { pid, replicaId } = child as { pid: number; replicaId: string };
  const id = await database.everbeat.enqueue(task("hold"), {});
  await eventually(() => database.everbeat.tasks.show(id), { until: ({ state }) => state === "running" });
  process.kill(pid, "SIGSTOP");
  const { death } = await database.untilStatus(replicaId, "dead", 60_000);
  expect(death).toMatchObject({ because: "silent" });
  return { database, supervisor, pid, id };
}

test("a child that stands still is killed and replaced when it is known to be dead and does not answer, with an alert", async () => {
  const { database, supervisor, pid, id } = await scene();
  const { everbeat } = database;
  expect(await supervisor.said({ event: "child.exited" })).toMatchObject({ pid, signal: "SIGKILL" });
  expect(supervisor.lines({ event: "child.still" })).toMatchObject([{ child: 1, pid }]);
  const next = await supervisor.said({ event: "child.ready" }, { after: 1 });
  expect(next.pid).not.toBe(pid);
  await everbeat.result(await everbeat.enqueue(task("wait"), {}), { timeout: 30_000 });
  // It was charged with the silence, and not once more with the end.
  expect(await everbeat.tasks.show(id)).toMatchObject({ attempt: 2, crashes: 1 });
  const alerts = await eventually(() => everbeat.alerts.list({}), {
    until: (all) => all.some(({ resolvedAt }) => resolvedAt !== null),
  });
  expect(alerts).toMatchObject([{ kind: "child-still", message: expect.stringContaining(`process ${pid}`) }]);
});

test("it does not keep a supervisor that is asked to leave for longer either", async () => {
  const { supervisor } = await scene();
  supervisor.signal("SIGTERM");
  await supervisor.said({ event: "child.still" });
  await supervisor.ended;
});

test("a child that goes on by itself keeps its place, under another id", async () => {
  const { database, supervisor, pid, id } = await scene();
  process.kill(pid, "SIGCONT");
  expect(await supervisor.said({ event: "child.ready" }, { after: 1 })).toMatchObject({ pid });
  await eventually(() => database.everbeat.tasks.show(id), {
    ...{ until: ({ attempt, state }) => attempt === 2 && state === "running", within: 30_000 },
  });
  expect(await database.crashesOf(id)).toBe(0);
});

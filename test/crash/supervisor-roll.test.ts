/** SIGHUP to a supervisor: every child is replaced, one at a time, and the work does not notice. */
import { expect, test, vi } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startSupervisor, task, untilReady } from "../support/supervisor.ts";

vi.setConfig({ testTimeout: 300_000 });

test("a roll under load charges no attempt, loses no task, and never leaves fewer than N at work", async () => {
  const processes = 3;
  const database = await openCrashDatabase();
  const { everbeat } = database;
  const supervisor = await startSupervisor({ url: database.url, processes, arguments: ["--concurrency", "4"] });
  const before = await untilReady(supervisor, processes);

  // Work comes in for as long as the roll takes, and some of it is longer than a start.
  const ids: string[] = [];
  const fewest = { online: processes };
  const look = async () => {
    const rows = await database.query<{ n: number }>(
      "select count(*)::int as n from everbeat.replica where status = 'online'",
    );
    fewest.online = Math.min(fewest.online, rows[0]?.n ?? 0);
  };
  const feed = async (length: number) => {
    const inputs = Array.from({ length }, (_, index) => ({ ms: index % 10 === 0 ? 1_500 : 20 }));
    ids.push(...(await everbeat.enqueueMany(task("wait"), inputs)));
  };
  await feed(50);
  supervisor.signal("SIGHUP");
  await eventually(
    async () => {
      await feed(3);
      await look();
      return supervisor.lines({ event: "roll.done" })[0];
    },
    { within: 120_000, every: 100, what: "the roll to be done" },
  );
  expect(fewest.online).toBe(processes);

  const ended = await eventually(
    () =>
      database.query<{ attempt: number; crashes: number; failures: number; state: string; n: number }>(
        "select state, attempt, crashes, failures, count(*)::int as n from everbeat.tasks group by 1, 2, 3, 4",
      ),
    { until: (rows) => rows.every(({ state }) => state === "completed"), within: 90_000 },
  );
  expect(ended).toEqual([{ state: "completed", attempt: 1, crashes: 0, failures: 0, n: ids.length }]);
  expect(await database.deaths()).toBe(0);

  // Each old one left, was not killed, and only when its successor was ready; nobody was hurried.
  const lines = supervisor.lines();
  for (const { child, pid, replicaId } of before) {
    const readyAt = lines.findIndex((line) => line.event === "child.ready" && line.child === child && line.pid !== pid);
    const leavingAt = lines.findIndex((line) => line.event === "child.leaving" && line.pid === pid);
    const exitedAt = lines.findIndex((line) => line.event === "child.exited" && line.pid === pid);
    expect([readyAt, leavingAt, exitedAt]).toEqual([readyAt, leavingAt, exitedAt].sort((a, b) => a - b));
    expect(readyAt).toBeGreaterThan(0);
    expect(lines[exitedAt]).toMatchObject({ exitCode: 0, signal: null, wasAsked: true });
    expect((await database.replica(replicaId as string)).status).toBe("offline");
  }
  expect(supervisor.lines({ event: "child.started" })).toHaveLength(2 * processes);
  expect(supervisor.lines({ event: "child.restarting" })).toEqual([]);
});

test("a roll that meets SIGTERM ends there: the new child leaves with the others, and nobody is left behind", async () => {
  const database = await openCrashDatabase();
  const supervisor = await startSupervisor({ url: database.url, processes: 2 });
  await untilReady(supervisor, 2);
  supervisor.signal("SIGHUP");
  await supervisor.said({ event: "child.started" }, { after: 2 });
  supervisor.signal("SIGTERM");
  expect((await supervisor.ended).code).toBe(0);
  const pids = (event: string) => supervisor.lines({ event }).map(({ pid }) => pid);
  expect(new Set(pids("child.exited"))).toEqual(new Set(pids("child.started")));
  expect(await database.query("select from everbeat.replica where status <> 'offline'")).toEqual([]);
});

test("a new version that does not start stops the roll: the old children go on, and an alert says so", async () => {
  const database = await openCrashDatabase();
  const supervisor = await startSupervisor({ url: database.url, processes: 2 });
  const before = await untilReady(supervisor, 2);
  await supervisor.breakTasks();
  supervisor.signal("SIGHUP");
  expect(await supervisor.said({ event: "roll.stopped" })).toMatchObject({ child: 1 });
  for (const { replicaId } of before) expect((await database.replica(replicaId as string)).status).toBe("online");
  expect(supervisor.lines({ event: "child.leaving" })).toEqual([]);
  const alerts = () => database.everbeat.alerts.list({ open: true });
  expect(await eventually(alerts, { until: ({ length }) => length > 0, within: 40_000 })).toMatchObject([
    { kind: "roll-stopped" },
  ]);

  await supervisor.mendTasks();
  supervisor.signal("SIGHUP");
  await supervisor.said({ event: "roll.done" }, { within: 120_000 });
  await eventually(async () => (await alerts()).length === 0, { within: 40_000 });
  supervisor.signal("SIGTERM");
  expect((await supervisor.ended).code).toBe(0);
});

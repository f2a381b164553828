/** Reapers that stand still in the middle of a sweep, and rows that somebody holds: nobody else is held up by it. */
import { expect, test, vi } from "vitest";
import { type CrashDatabase, holding, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { PATIENT, startWorker, task } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 90_000 });

const QUICK = [{ handler: "quick" }] as const;
const HOLD = [{ handler: "hold", onCrash: "requeue" }] as const;
const open = { recovery: PATIENT };

/** Those whose sweep waits for a lock, by the names of their connections. */
async function waitingSweeps(database: CrashDatabase): Promise<string[]> {
  const rows = await database.query<{ name: string }>(
    `select application_name as name from pg_stat_activity
     where wait_event_type = 'Lock' and query like '%begin_sweep%' and datname = current_database() and pid <> pg_backend_pid()`,
  );
  return rows.map(({ name }) => name);
}

test("a reaper that is stopped in the middle of a sweep's transaction is followed by another, and found dead by it", async () => {
  const database = await openCrashDatabase();
  const start = (name: string) =>
    startWorker({ url: `${database.url}?application_name=${name}`, tasks: HOLD, open, work: { concurrency: 1 } });
  const workers = { one: await start("one"), other: await start("other") };
  const ids = await database.everbeat.enqueueMany(task("hold"), [{}, {}]);
  const states = () => Promise.all(ids.map(async (id) => (await database.everbeat.tasks.show(id)).state));
  await eventually(async () => (await states()).join() === "running,running");

  // It has the sweep's lock and waits for the row that says when it was; there it is stopped.
  const blocker = await holding(database.url, "select from everbeat.listening for update");
  const stopped = await eventually(
    async () => {
      const [name] = await waitingSweeps(database);
      if (name !== "one" && name !== "other") return undefined;
      workers[name].signal("SIGSTOP");
      if ((await waitingSweeps(database)).includes(name)) return name;
      // It was through before it stood still: once more.
      workers[name].signal("SIGCONT");
      return undefined;
    },
    { within: 30_000 },
  );
  const [zombie, heir] = stopped === "one" ? [workers.one, workers.other] : [workers.other, workers.one];
  // It does not keep the sweep's lock for as long as it stands there: the other is where it was.
  const other = stopped === "one" ? "other" : "one";
  await eventually(async () => (await waitingSweeps(database)).includes(other), { within: 30_000 });
  await blocker.release();

  await eventually(async () => (await database.everbeat.recovery.listening())?.sweptBy === heir.replicaId);
  await database.untilStatus(zombie.replicaId, "dead");
  expect((await database.replica(zombie.replicaId)).death).toMatchObject({ because: "silent" });
  await heir.heard({ event: "task.recovered", replicaId: zombie.replicaId });
  expect((await states()).sort()).toEqual(["pending", "running"]);
});

test("somebody who keeps the row of one heart keeps nobody from sweeping, nor from finding the others dead", async () => {
  const database = await openCrashDatabase();
  const [kept, killed] = [
    await startWorker({ url: database.url, tasks: QUICK, open }),
    await startWorker({ url: database.url, tasks: QUICK, open }),
  ];
  const reaper = await startWorker({ url: database.url, tasks: QUICK, open });
  // Its beats wait too, so that it will be silent: those who would declare it dead meet the row as well.
  const keeper = await holding(
    database.url,
    `select from everbeat.heart where replica_id = '${kept.replicaId}' for update`,
  );
  await kept.kill();
  const silent = () =>
    database.query("select from everbeat.doubtful_hearts(8500) where replica_id = $1 and silent_for_ms > 8500", [
      kept.replicaId,
    ]);
  await eventually(async () => (await silent()).length === 1, { within: 30_000 });
  await killed.kill();
  await database.untilStatus(killed.replicaId, "dead");
  expect((await database.replica(kept.replicaId)).status).toBe("online");
  await keeper.release();
  await database.untilStatus(kept.replicaId, "dead");
  for (const { replicaId } of [killed, kept]) await reaper.heard({ event: "replica.dead", replicaId });
});

test("sweeps that stop are an alert by those who are alive, and it ends with the next sweep", async () => {
  const database = await openCrashDatabase();
  const workers = [
    await startWorker({ url: database.url, tasks: QUICK, open }),
    await startWorker({ url: database.url, tasks: QUICK, open }),
  ];
  const alerts = async () => (await database.everbeat.alerts.list({ open: true })).map(({ kind }) => kind);
  const blocker = await holding(database.url, "select from everbeat.listening for update");
  await eventually(async () => (await alerts()).join() === "sweeps-stopped", { within: 20_000 });
  await Promise.any(workers.map((worker) => worker.heard({ event: "sweeps.stopped" })));
  await blocker.release();
  await eventually(alerts, { until: (open) => open.length === 0, within: 20_000, what: "the end of the alert" });
  expect(await database.query("select kind from everbeat.alert where resolved_at is not null")).toEqual([
    { kind: "sweeps-stopped" },
  ]);
  expect(await database.deaths()).toBe(0);
});

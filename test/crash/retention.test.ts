/** Ended tasks leave by the settings of workers, whoever runs the services of the cluster at that time. */
import { expect, test, vi } from "vitest";
import { type CrashDatabase, openCrashDatabase, openThrough } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startSupervisor } from "../support/supervisor.ts";
import { startWorker, task } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 90_000 });

const TASKS = [{ handler: "quick", name: "quick" }] as const;

/** A task that ended so long ago. */
async function ended(database: CrashDatabase, age: string) {
  const id = await database.everbeat.enqueue(task("quick"), {});
  await database.query(
    `with gone as (delete from everbeat.ready where task_id = $1)
     insert into everbeat.ended (task_id, state, attempt, failures, crashes, ended_at) values ($1, 'completed', 1, 0, 0, now())`,
    [id],
  );
  // It knows by this that its oldest rows have moved.
  await database.query("update everbeat.ended set ended_at = now() - $2::interval where task_id = $1", [id, age]);
}
const untilGone = (database: CrashDatabase) =>
  eventually(async () => (await database.count("everbeat.ended")) === 0, {
    within: 40_000,
    what: "the removal of the ended task",
  });
const takerOf = async ({ everbeat }: CrashDatabase, name: string) =>
  (await everbeat.services()).cluster.find(({ service }) => service === name)?.takenBy;

test("under a supervisor, which has had the turns since before its children were there, they are removed", async () => {
  const database = await openCrashDatabase();
  await ended(database, "8 days");
  await startSupervisor({ url: database.url, processes: 1 });
  await untilGone(database);
  const taker = await takerOf(database, "upkeep");
  expect((await database.everbeat.replicas()).map(({ id }) => id)).not.toContain(taker);
});

test("beside a process without workers that has the turns, a worker removes them", async () => {
  const database = await openCrashDatabase();
  await openThrough(database.url, { runsServices: true });
  await eventually(() => takerOf(database, "upkeep"), { within: 20_000, what: "a turn of the process" });
  await ended(database, "1 hour");
  await startWorker({ url: database.url, tasks: TASKS, work: { retention: { maxAge: "30m" } } });
  await untilGone(database);
});

test("of workers with different settings, the strictest wins, though another has the turns", async () => {
  const database = await openCrashDatabase();
  const patient = await startWorker({ url: database.url, tasks: TASKS, work: { retention: { maxAge: "30d" } } });
  await eventually(async () => (await takerOf(database, "upkeep")) === patient.replicaId, { within: 20_000 });
  await ended(database, "1 hour");
  await startWorker({ url: database.url, tasks: TASKS, work: { retention: { maxAge: "30m" } } });
  await untilGone(database);
  expect(await takerOf(database, "upkeep")).toBe(patient.replicaId);
});

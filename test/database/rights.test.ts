/** A role with the rights that the documentation grants does all that an application and its workers do. */
import { expect, onTestFinished, test } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import type { LogFields } from "../../src/log.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { openCrashDatabase } from "../support/crash-database.ts";
import { createDocumentedRole } from "../support/documented-role.ts";
import { eventually } from "../support/eventually.ts";
import { startWorker } from "../support/worker-process.ts";

const double = defineTask({ name: "double", run: (input: { n: number }) => input.n * 2 });
const held = defineTask({ name: "held", onCrash: "requeue", run: async (_input: object) => "again" });

/** Open by that role, with what was refused to it. */
async function scene() {
  const database = await openCrashDatabase();
  const { url } = await createDocumentedRole(database);
  const complaints: string[] = [];
  const complain = (fields: LogFields, message: string) => void complaints.push(JSON.stringify({ ...fields, message }));
  const log = { debug() {}, info() {}, warn: complain, error: complain };
  const everbeat = await Everbeat.open({ database: url, log });
  onTestFinished(() => everbeat.close({ now: true }));
  return { database, url, everbeat, refusals: () => complaints.filter((line) => line.includes("permission denied")) };
}

test("it joins, enqueues, claims and completes, also in an epoch that it is the first to see", async () => {
  const { database, everbeat, refusals } = await scene();
  const endEpoch = () => database.query("delete from everbeat.epoch_marker");
  await endEpoch();
  await everbeat.work([double, held]);
  expect(await everbeat.result(await everbeat.enqueue(double, { n: 4 }))).toBe(8);
  await endEpoch();
  const ids = await everbeat.enqueueMany(double, [{ n: 1 }, { n: 2 }]);
  expect(await Promise.all(ids.map((id) => everbeat.result(id)))).toEqual([2, 4]);
  await everbeat.close();
  expect(refusals()).toEqual([]);
});

test("it gives orders, looks at everything, and enqueues in SQL", async () => {
  const { everbeat } = await scene();
  await everbeat.queues.pause("default");
  await everbeat.queues.set("default", { concurrency: 5, rateLimit: { limit: 100, per: "1s" } });
  await everbeat.queues.resume("default");
  const id = await everbeat.enqueue(double, { n: 1 }, { exclusiveKey: "a", uniqueKey: "b", metadata: { of: "c" } });
  await everbeat.tasks.retry(id);
  await everbeat.tasks.cancel(id);
  const { schema } = everbeat.database;
  await everbeat.database.query(`select ${schema}.enqueue('double', '{"n": 2}')`);
  expect((await everbeat.tasks.list({ name: "double" })).tasks).toHaveLength(2);
  expect(await everbeat.recovery.explain(id)).toMatchObject({ because: "cancelled" });
  expect(await everbeat.recovery.findStale()).toEqual([]);
  expect(await everbeat.recovery.failStaleRunning()).toMatchObject({ count: 0 });
  expect(await everbeat.recovery.confirmDeaths()).toEqual([]);
  for (const looked of [everbeat.queues.list(), everbeat.runners(), everbeat.recovery.reliability()]) await looked;
  for (const none of [
    everbeat.recovery.machines(),
    everbeat.recovery.review.list(),
    everbeat.recovery.quarantine.list(),
  ])
    expect(await none).toEqual([]);
});

test("its sweep finds a worker dead that was killed, and recovers its task, which is run again", async () => {
  const { url, everbeat, refusals } = await scene();
  const doomed = await startWorker({ url, tasks: [{ handler: "hold", name: "held", onCrash: "requeue" }] });
  const id = await everbeat.enqueue(held, {});
  await doomed.heard({ handler: "begun", taskId: id });
  const told: unknown[] = [];
  everbeat.on("replica.dead", ({ replicaId, because }) => told.push({ replicaId, because }));
  everbeat.on("task.recovered", ({ taskId, action }) => told.push({ taskId, action }));
  await everbeat.work([held]);
  // Beaten by its own heart: from then on the end of its session counts.
  await eventually(async () => (await everbeat.replicas()).every(({ hasSession, vitals }) => hasSession && vitals));
  await doomed.kill();
  expect(await everbeat.result(id)).toBe("again");
  // The task may have run again before its recovery is told of.
  await eventually(() => told.length === 2);
  expect(told).toEqual([
    { replicaId: doomed.replicaId, because: "session-lost" },
    { taskId: id, action: "retried" },
  ]);
  expect(await everbeat.recovery.postMortems()).toMatchObject([{ kind: "attempt" }, { kind: "replica" }]);
  await everbeat.close();
  expect(refusals()).toEqual([]);
});

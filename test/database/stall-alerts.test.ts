/** The alert about a stalled task ends with the attempt that it is about, whoever ends that, also while nobody sweeps. */
import pg from "pg";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { createClaimHandle } from "../../src/runner/claim-handle.ts";
import type { ClaimedTask } from "../../src/sql/claims.ts";
import { saveDefinitions } from "../../src/sql/replicas.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { completed, handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { refuse } from "../support/refusing.ts";
import { anHourLater, sweeper } from "../support/sweeping.ts";
import { unique } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
beforeEach(() => database.query("truncate everbeat.alert, everbeat.running, everbeat.listening, everbeat.turn"));

const openAlerts = async () =>
  (await everbeat.alerts.list({ open: true })).map(({ kind, subject }) => ({ kind, subject }));
const stalled = ({ taskId }: ClaimedTask) => ({ kind: "task-stalled", subject: taskId });

/** Two tasks of one worker, both stalled, with an alert about each. The sweep that raised them was the last. */
async function twoStalled() {
  const task = defineTask({ name: unique("stalls"), stalledAfter: "1s", run: (_input: null) => null });
  await saveDefinitions(everbeat.database, [task.settings]);
  await everbeat.enqueueMany(task, [null, null]);
  const worker = handClaimer(everbeat.database, [task.name]);
  const [one, other] = (await worker.claim()) as [ClaimedTask, ClaimedTask];
  await anHourLater(everbeat.database);
  await sweeper(everbeat.database).sweep();
  expect(new Set(await openAlerts())).toEqual(new Set([stalled(one), stalled(other)]));
  const handle = createClaimHandle({
    ...one,
    ...{ name: task.name, replicaId: worker.replicaId, schema: "everbeat", resultLimitBytes: 1_000 },
  });
  return { worker, one, other, handle };
}
type Scene = Awaited<ReturnType<typeof twoStalled>>;

async function connect(begin: string): Promise<pg.Client> {
  const client = new pg.Client(database.url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query(begin);
  return client;
}

const die = ({ worker }: Scene) =>
  database.query("update everbeat.replica set status = 'dead', died_at = now() where id = $1", [worker.replicaId]);

describe("the alert of a stalled task, and no other, ends when", () => {
  test.each<[string, (scene: Scene) => Promise<unknown>]>([
    ["it is to be cancelled", ({ one }) => everbeat.tasks.cancel(one.taskId)],
    ["it is taken from its worker", ({ one }) => everbeat.tasks.retry(one.taskId, { force: true })],
    [
      "it is failed by hand",
      async (scene) => {
        await die(scene);
        expect(await everbeat.recovery.failStaleRunning({ ids: [scene.one.taskId] })).toMatchObject({ count: 1 });
      },
    ],
    ["it completes without a result", ({ worker, one }) => worker.complete(one)],
    ["it completes with a result", ({ worker, one }) => worker.complete(one, "1")],
    [
      "it is to be tried again",
      ({ worker, one }) =>
        worker.end([{ ...completed(one, worker.replicaId), to: "pending", outcome: "failed", failures: 1 }]),
    ],
    [
      "it completes in a transaction of its handler's",
      async ({ handle }) => {
        const tx = await connect("begin");
        await handle.completeIn(tx, 1);
        await tx.query("commit");
      },
    ],
  ])("%s", async (_, end) => {
    const scene = await twoStalled();
    await end(scene);
    expect(await openAlerts()).toEqual([stalled(scene.other)]);
  });
});

test("both end when the exit of their worker's process is reported", async () => {
  const { worker } = await twoStalled();
  expect(await everbeat.recovery.reportExit(worker.replicaId, { signal: "SIGKILL" })).toMatchObject({
    verdict: "dead",
  });
  expect(await openAlerts()).toEqual([]);
});

describe("no end of a task fails or waits on account of an alert", () => {
  test("that somebody has locked: it stays, and the next sweep ends it", async () => {
    const { worker, one, other } = await twoStalled();
    const holder = await connect("begin");
    await holder.query("select from everbeat.alert where subject = $1 for update", [one.taskId]);
    await worker.complete(one);
    await everbeat.tasks.cancel(other.taskId);
    expect(await openAlerts()).toEqual([stalled(one)]);
    await holder.query("rollback");
    await anHourLater(everbeat.database);
    await sweeper(everbeat.database).sweep();
    expect(await openAlerts()).toEqual([]);
  });

  test("that the database refuses to change: it stays, and the task has ended", async () => {
    const { worker, one, other } = await twoStalled();
    const { allow } = await refuse(database, "alert", `new.subject = '${one.taskId}'`);
    await worker.complete(one);
    await allow();
    expect((await everbeat.tasks.show(one.taskId)).state).toBe("completed");
    expect(new Set(await openAlerts())).toEqual(new Set([stalled(one), stalled(other)]));
  });

  test.each(["repeatable read", "serializable"])("that was changed since a %s transaction began", async (level) => {
    const { one, handle } = await twoStalled();
    const tx = await connect(`begin isolation level ${level}`);
    await tx.query("select from everbeat.alert");
    await database.query("update everbeat.alert set message = message || ' Still.'");
    await handle.completeIn(tx, 1);
    await tx.query("commit");
    expect((await everbeat.tasks.show(one.taskId)).state).toBe("completed");
  });
});

/** A worker on a database that has forgotten how tasks ended: one that it cannot end keeps it from nothing else. */
import { expect, onTestFinished, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import type { ReplicaId, TaskId } from "../../src/task/ids.ts";
import { giveBackUnknown } from "../../src/worker/give-back.ts";
import { Received } from "../../src/worker/received.ts";
import { handClaimer } from "../support/claims.ts";
import { holding } from "../support/crash-database.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { refuse } from "../support/refusing.ts";
import { unique } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const stateOf = async (id: string) => (await everbeat.tasks.show(id)).state;

/** A worker that has completed these, as it knows; the database still has them as running. */
async function forgetfulScene(count: number) {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const name = unique("forgotten");
  const task = defineTask({ name, queue: name, run: (isHeld: boolean) => (isHeld ? held : undefined) });
  const options = { queues: [name], pollInterval: "100ms", concurrency: count + 5, handleSignals: false } as const;
  const worker = await everbeat.work([task], options);
  onTestFinished(() => worker.stop());
  const ids = (await everbeat.enqueueMany(task, Array(count).fill(true))) as unknown as TaskId[];
  await eventually(() => worker.running === count);
  await database.query("drop table if exists saved");
  await database.query("create table saved as select * from everbeat.running where task_id = any ($1)", [ids]);
  release();
  for (const id of ids) await everbeat.result(id);
  const forget = async () => {
    await database.query("delete from everbeat.ended where task_id = any ($1)", [ids]);
    await database.query("delete from everbeat.epoch_marker");
    await database.query("insert into everbeat.running select * from saved");
  };
  return { task, worker, ids, forget };
}

test("the others are ended and listed for review, lost replies are adopted, and it goes on claiming", async () => {
  const { task, worker, ids, forget } = await forgetfulScene(5);
  const { allow } = await refuse(database, "ended", `new.task_id = '${ids[2]}' and new.state = 'failed'`);
  const told: unknown[] = [];
  everbeat.on("claim.forgotten", ({ taskId }) => told.push(taskId));
  const lost = await everbeat.enqueue(task, false, { queue: "another" });
  await forget();
  // Claimed for it by a statement whose reply it never had.
  const claimer = handClaimer(everbeat.database, [task.name]);
  await claimer.claim({ replicaId: worker.replicaId as ReplicaId, queues: ["another"], room: [null] });
  await eventually(async () => (await stateOf(lost)) === "completed", { what: "the lost reply" });
  expect(await everbeat.result(await everbeat.enqueue(task, false), { timeout: "10s" })).toBeNull();
  const others = ids.filter((_, nth) => nth !== 2);
  await eventually(async () => (await Promise.all(others.map(stateOf))).every((state) => state === "failed"));
  expect(await stateOf(ids[2] ?? "")).toBe("running");
  // It is told a moment after it is on record.
  await eventually(() => told.length >= others.length, { what: "the events" });
  expect(told.toSorted()).toEqual(others.toSorted());
  const review = await everbeat.recovery.review.list({ name: task.name });
  expect(review.map(({ id }) => id).toSorted()).toEqual(others.toSorted());
  expect(review).toMatchObject(others.map(() => ({ error: { code: "END_FORGOTTEN" } })));
  expect(await everbeat.recovery.review.count()).toBe(4);
  expect(await everbeat.recovery.explain(others[0] ?? "")).toMatchObject({ because: "needs-review" });
  expect(await everbeat.recovery.review.done(others)).toHaveLength(4);
  expect(await everbeat.recovery.review.count()).toBe(0);
  expect(await everbeat.recovery.explain(others[0] ?? "")).toMatchObject({ because: "reviewed" });

  await allow();
  await eventually(async () => (await stateOf(ids[2] ?? "")) === "failed", { what: "the last, once it can be ended" });
});

test("one whose claim somebody has locked keeps the worker from nothing, and is ended when the lock is gone", async () => {
  const { task, ids, forget } = await forgetfulScene(3);
  // None is ended before the lock is there.
  const { allow } = await refuse(database, "ended", `new.task_id in ('${ids.join("', '")}') and new.state = 'failed'`);
  await forget();
  const lock = await holding(database.url, `select from everbeat.running where task_id = '${ids[1]}' for update`);
  await allow();
  const others = ids.filter((_, nth) => nth !== 1);
  await eventually(async () => (await Promise.all(others.map(stateOf))).every((state) => state === "failed"));
  expect(await everbeat.result(await everbeat.enqueue(task, false), { timeout: "10s" })).toBeNull();
  expect(await stateOf(ids[1] ?? "")).toBe("running");
  await lock.release();
  await eventually(async () => (await stateOf(ids[1] ?? "")) === "failed", { what: "the last, once it is free" });
});

test("what the database has as only claimed is not run again under the same claim: its start may be forgotten with its end", async () => {
  const { ids, forget } = await forgetfulScene(2);
  const started: unknown[] = [];
  everbeat.on("task.started", ({ taskId }) => started.push(taskId));
  await database.query("update saved set state = 'claimed', started_at = null");
  await forget();
  await eventually(async () => (await Promise.all(ids.map(stateOf))).every((state) => state === "failed"));
  expect(started).toEqual([]);
});

test("a leaving worker gives back what it does not know of, but for the one that it cannot", async () => {
  const name = unique("unknown");
  const task = defineTask({ name, run: (_input: number) => null });
  const ids = (await everbeat.enqueueMany(task, [1, 2, 3], {
    options: { queue: name },
  })) as unknown as TaskId[];
  const claimer = handClaimer(everbeat.database, [name]);
  await claimer.claim({ queues: [name], room: [null] });
  await refuse(database, "ready", `new.task_id = '${ids[1]}'`);
  await giveBackUnknown(everbeat.database, claimer.replicaId, { known: [], received: new Received() });
  expect(await Promise.all(ids.map(stateOf))).toEqual(["pending", "running", "pending"]);
});

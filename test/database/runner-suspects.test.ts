/** Tasks that were in a runner before the one that it ended with: suspects too, wherever they are by then. */
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import type { EnqueueOptions } from "../../src/queue/enqueue-options.ts";
import type { ClaimedTask } from "../../src/sql/claims.ts";
import type { Outcome } from "../../src/sql/outcomes.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { handClaimer, releaseClaims } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
let names = 0;

const again = ({ claimId: claim, taskId: task }: ClaimedTask, replica: ReplicaId): Outcome => ({
  ...{
    claim,
    task,
    replica,
    to: "pending",
    outcome: "failed",
    delayMs: 0,
    error: { code: "TASK_FAILED", message: "again" },
  },
});

/** One that has run once, in a runner that is used further, and is claimable again; and one that runs in that runner now. */
async function scene(options: EnqueueOptions = {}) {
  const name = `in-runner-${names++}`;
  const task = defineTask({ name, run: (_input: unknown) => null });
  const own = handClaimer(everbeat.database, [name]);
  const other = handClaimer(everbeat.database, [name]);
  const earlier = await everbeat.enqueue(task, "earlier", options);
  const [first] = await own.claim();
  await own.end([again(first as ClaimedTask, own.replicaId)]);
  const claimEarlier = async () => {
    const [claimed] = await other.claim();
    expect(claimed?.taskId).toBe(earlier);
    return claimed as ClaimedTask;
  };
  /** Another runs in the runner by then. */
  const next = async () => {
    await everbeat.enqueue(task, "present", { priority: 1 });
    const [present] = await own.claim({ run: 1 });
    expect(present?.taskId).not.toBe(earlier);
    return present as ClaimedTask;
  };
  const crash = (present: ClaimedTask, to: "pending" | "failed" = "pending") =>
    own.end([
      {
        ...again(present, own.replicaId),
        ...{ to, outcome: to === "failed" ? "failed" : "crashed" },
        crash: { id: newReplicaId(), suspects: 2, isApart: false, others: [earlier] },
      },
    ]);
  return { task, own, other, earlier, claimEarlier, next, crash };
}

/** Whoever claims a gated task asks whether it may. */
const isGated = async (id: string) =>
  (await database.query<{ gated: boolean }>("select gated from everbeat.ready where task_id = $1", [id]))[0]?.gated;
const isSuspected = async (id: string) =>
  (await database.query("select from everbeat.suspicion where task_id = $1", [id])).length === 1;

test("one that waits is gated", async () => {
  const { claimEarlier, other, next, crash, earlier } = await scene();
  const claimed = await claimEarlier();
  const present = await next();
  await other.end([again(claimed, other.replicaId)]);
  await crash(present);
  expect([await isSuspected(earlier), await isGated(earlier)]).toEqual([true, true]);
});

test("one that waits is gated also where the task that the runner ended with fails, which is no suspect then", async () => {
  const { claimEarlier, other, next, crash, earlier } = await scene();
  const claimed = await claimEarlier();
  const present = await next();
  await other.end([again(claimed, other.replicaId)]);
  await crash(present, "failed");
  expect([await isSuspected(earlier), await isGated(earlier)]).toEqual([true, true]);
  expect(await isSuspected(present.taskId)).toBe(false);
});

test("a crash that is told of under a claim that is lost makes nobody a suspect", async () => {
  const { claimEarlier, own, other, next, crash, earlier } = await scene();
  const claimed = await claimEarlier();
  const present = await next();
  await other.end([again(claimed, other.replicaId)]);
  await own.complete(present);
  await crash(present, "failed");
  expect(await isSuspected(earlier)).toBe(false);
});

test("one that is parked behind its key is gated when it is let go", async () => {
  const { task, other, next, crash, earlier, claimEarlier } = await scene({ exclusiveKey: "k" });
  const claimed = await claimEarlier();
  const present = await next();
  await other.end([again(claimed, other.replicaId)]);
  const holder = await everbeat.enqueue(task, "holder", { exclusiveKey: "k", priority: -1 });
  const [held] = await other.claim({ run: 1 });
  expect(held?.taskId).toBe(holder);
  await other.claim();
  expect(await database.query("select from everbeat.parked where task_id = $1", [earlier])).toHaveLength(1);
  await crash(present);
  await other.complete(held as ClaimedTask);
  expect([await isSuspected(earlier), await isGated(earlier)]).toEqual([true, true]);
});

test.each([
  ["when it is tried again", "end"],
  ["when it is given back", "release"],
])("one that another replica has is gated %s", async (_, how) => {
  const { other, next, crash, earlier, claimEarlier } = await scene();
  const claimed = await claimEarlier();
  await crash(await next());
  if (how === "end") await other.end([again(claimed, other.replicaId)]);
  else {
    await database.query("update everbeat.running set state = 'claimed' where task_id = $1", [earlier]);
    await releaseClaims(everbeat.database, [claimed], other.replicaId);
  }
  expect([await isSuspected(earlier), await isGated(earlier)]).toEqual([true, true]);
});

test("one that waits, and whose row somebody has locked, holds nobody up, and is gated when it waits again", async () => {
  const { other, next, crash, earlier, claimEarlier } = await scene();
  const claimed = await claimEarlier();
  const present = await next();
  await other.end([again(claimed, other.replicaId)]);
  const holder = new pg.Client({ connectionString: database.url });
  await holder.connect();
  onTestFinished(() => holder.end());
  await holder.query("begin");
  const { rowCount } = await holder.query("select from everbeat.ready where task_id = $1 for update", [earlier]);
  expect(rowCount).toBe(1);
  await crash(present);
  expect([await isSuspected(earlier), await isGated(earlier)]).toEqual([true, false]);
  await holder.query("rollback");
  const [later] = await other.claim({ run: 1 });
  expect(later?.taskId).toBe(earlier);
  await other.end([again(later as ClaimedTask, other.replicaId)]);
  expect(await isGated(earlier)).toBe(true);
});

test("one that has ended is no suspect", async () => {
  const { other, next, crash, earlier, claimEarlier } = await scene();
  await other.complete(await claimEarlier());
  await crash(await next());
  expect(await isSuspected(earlier)).toBe(false);
});

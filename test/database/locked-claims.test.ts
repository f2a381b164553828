/** A claim whose row somebody has locked holds up no other claim that is started, given back or taken along with it. */
import { expect, onTestFinished, test } from "vitest";
import { Events } from "../../src/events.ts";
import { rehomeClaims, startClaims } from "../../src/sql/claims.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { TaskId } from "../../src/task/ids.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import { GivingBack, giveBackUnknown } from "../../src/worker/give-back.ts";
import { Hand } from "../../src/worker/hand.ts";
import { Outages } from "../../src/worker/outages.ts";
import { Received } from "../../src/worker/received.ts";
import type { Slots } from "../../src/worker/slots.ts";
import { handClaimer, putOnRecord } from "../support/claims.ts";
import { holding } from "../support/crash-database.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { refuse } from "../support/refusing.ts";
import { gate, unique, workingOn } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const { working, record } = workingOn(everbeat);
const stateOf = async (id: string) => (await everbeat.tasks.show(id)).state;
const statesOf = (ids: readonly string[]) => Promise.all(ids.map(stateOf));
const lockClaimOn = (id: string | undefined) =>
  holding(database.url, `select from everbeat.running where task_id = '${id}' for update`);

/** Three tasks that nobody runs, claimed by a replica on record. */
async function threeClaimed(state: "claimed" | "running") {
  const name = unique("claimed");
  const task = defineTask({ name, run: (_input: number) => null });
  await everbeat.enqueueMany(task, [1, 2, 3]);
  const claimer = handClaimer(everbeat.database, [name]);
  const claimed = await claimer.claim(state === "running" ? {} : { run: 0, prefetch: 3 });
  const lock = await lockClaimOn(claimed[1]?.taskId);
  return { claimer, claimed, ids: claimed.map(({ taskId }) => taskId), lock };
}

test("what was claimed ahead starts but for the one that is locked, which runs once when it is free", async () => {
  const first = gate();
  const ran: number[] = [];
  const task = defineTask({
    name: unique("ahead"),
    async run(nth: number) {
      if (nth < 3) await first.opened;
      ran.push(nth);
    },
  });
  const told = [record("claim.lost"), record("claim.adopted")].flatMap((seen) => [seen]);
  const ids = (await everbeat.enqueueMany(task, [0, 1, 2, 3, 4, 5])) as string[];
  const worker = await working([task], { concurrency: 3, prefetch: 3 });
  onTestFinished(() => worker.stop({ now: true }));
  await eventually(async () => (await statesOf(ids)).join() === "running,running,running,claimed,claimed,claimed");
  const lock = await lockClaimOn(ids[4]);
  first.open();
  for (const nth of [3, 5]) await everbeat.result(ids[nth] as TaskId, { timeout: "10s" });
  expect(await stateOf(ids[4] ?? "")).toBe("claimed");
  await lock.release();
  await everbeat.result(ids[4] as TaskId, { timeout: "10s" });
  expect(ran.toSorted()).toEqual([0, 1, 2, 3, 4, 5]);
  expect(told).toEqual([[], []]);
});

test("a start tells which claims are locked from those that are lost", async () => {
  const { claimed, lock } = await threeClaimed("claimed");
  const [a, b, c] = claimed.map(({ claimId }) => claimId);
  await database.query("delete from everbeat.running where claim_id = $1", [c]);
  expect(await startClaims(everbeat.database, claimed)).toEqual({ started: [a], locked: [b] });
  await lock.release();
});

test("what is given back is given back but for the one that is locked, and only that stays in hand", async () => {
  const { claimer, claimed, ids, lock } = await threeClaimed("claimed");
  const hand = new Hand(new Map(), {} as Slots);
  const outages = new Outages(new Events(() => {}));
  const givingBack = new GivingBack({ database: everbeat.database, hand, outages });
  onTestFinished(() => givingBack.giveUp());
  await givingBack.giveBack([{ tasks: claimed, under: claimer.replicaId }]);
  expect(await statesOf(ids)).toEqual(["pending", "claimed", "pending"]);
  expect(hand.claims().map(({ taskId }) => taskId)).toEqual([ids[1]]);
  await lock.release();
  await givingBack.idle();
  expect(await stateOf(ids[1] ?? "")).toBe("pending");
  expect(hand.claims()).toEqual([]);
});

test("a leaving worker gives back what it does not know of, but for the one that is locked", async () => {
  const { claimer, ids, lock } = await threeClaimed("running");
  await giveBackUnknown(everbeat.database, claimer.replicaId, { known: [], received: new Received() });
  expect(await statesOf(ids)).toEqual(["pending", "running", "pending"]);
  await lock.release();
});

test("a replica that changes its id takes along what nobody has locked", async () => {
  const { claimer, claimed, lock } = await threeClaimed("running");
  const next = newReplicaId();
  await putOnRecord(everbeat.database, next, []);
  const along = await rehomeClaims(everbeat.database, claimer.replicaId, next, claimed);
  expect(along.toSorted()).toEqual([claimed[0]?.claimId, claimed[2]?.claimId].toSorted());
  await lock.release();
});

test("a replica that the database does not let come back tells of it", async () => {
  const name = unique("back");
  const task = defineTask({ name, run: (_input: null) => null });
  const refused = record("database.refused");
  const rejoined = record("replica.rejoined");
  const worker = await working([task], { queues: [name] });
  onTestFinished(() => worker.stop({ now: true }));
  const { allow } = await refuse(database, "replica", `'${name}' = any (new.tasks) and new.status = 'online'`);
  await database.query("update everbeat.replica set status = 'dead' where id = $1", [worker.replicaId]);
  await eventually(() => refused.some((event) => (event as { doing: string }).doing === "coming back"), {
    what: "the refusal to be told of",
  });
  expect(rejoined).toEqual([]);
  await allow();
  await eventually(() => rejoined.length === 1, { what: "the replica to come back" });
});

/** What an end lets go from behind an exclusive key is taken in the same statement, without a search, and no rule is left out. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import type { ClaimedTask, ClaimRequest } from "../../src/sql/claims.ts";
import { workRound } from "../../src/sql/work-round.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { completed, handClaimer, putOnRecord } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const { replicaId } = handClaimer(everbeat.database, ["noop"]);
await putOnRecord(everbeat.database, replicaId, ["noop"]);

const inputs = (tasks: readonly { input: unknown }[]) => tasks.map((task) => task.input);
const counts = (queue: string) =>
  database.query(
    `select (select count(*)::int from everbeat.ready where queue = $1) as ready, (select count(*)::int from everbeat.parked where queue = $1) as parked`,
    [queue],
  );

/** A queue and a key of the test's own; `round` ends tasks and looks for others in one statement. */
function scene() {
  const queue = `q-${randomUUID()}`;
  const round = (ended: readonly ClaimedTask[], request: Partial<ClaimRequest> = {}) =>
    workRound(
      everbeat.database,
      {
        ...{ replicaId, names: ["noop"], queues: [queue], room: [null], run: 10, prefetch: 0, cursors: [] },
        ...request,
      },
      ended.map((task) => completed(task, replicaId)),
    );
  return { queue, exclusiveKey: `k-${queue}`, round };
}

describe("a task that waited for its key", () => {
  test("is taken with the end that lets it go, though a search would begin behind it", async () => {
    const { queue, exclusiveKey, round } = scene();
    await everbeat.enqueueMany(noop, [1, 2, 3], { options: { queue, exclusiveKey } });
    await everbeat.enqueue(noop, "last", { queue });
    const { claimed, cursors } = await round([]);
    expect(inputs(claimed)).toEqual([1, "last"]);
    const [one] = claimed as [ClaimedTask];
    const next = await round([one], { cursors });
    expect(inputs(next.claimed)).toEqual([2]);
    // Where the next search begins is not for those to say who came out of turn.
    expect(next.cursors).toEqual([]);
    expect(next.claimed[0]).toMatchObject({ queue, priority: 0, exclusiveKey });
    expect(await counts(queue)).toEqual([{ ready: 0, parked: 1 }]);
    expect(inputs((await round(next.claimed, { cursors })).claimed)).toEqual([3]);
  });

  test("goes before what there is room for besides, and leaves the rest of the room to others", async () => {
    const { queue, exclusiveKey, round } = scene();
    await everbeat.enqueueMany(noop, [1, 2], { options: { queue, exclusiveKey } });
    const { claimed } = await round([]);
    await everbeat.enqueueMany(noop, ["a", "b"], { options: { queue } });
    expect(inputs((await round(claimed, { run: 2 })).claimed)).toEqual([2, "a"]);
  });

  test("with several under one key is taken as far as there is room", async () => {
    const { queue, exclusiveKey, round } = scene();
    await everbeat.enqueueMany(noop, [1, 2, 3, 4, 5], { options: { queue, exclusiveKey, exclusiveLimit: 2 } });
    const { claimed } = await round([]);
    expect(inputs(claimed)).toEqual([1, 2]);
    expect(inputs((await round(claimed)).claimed)).toEqual([3, 4]);
    expect(await counts(queue)).toEqual([{ ready: 0, parked: 1 }]);
  });

  test("is not taken beside one of the same key that goes before it and was not met before", async () => {
    const { queue, exclusiveKey, round } = scene();
    await everbeat.enqueueMany(noop, ["first", "parked"], { options: { queue, exclusiveKey, priority: 5 } });
    const { claimed } = await round([]);
    expect(inputs(claimed)).toEqual(["first"]);
    await everbeat.enqueue(noop, "urgent", { queue, exclusiveKey, priority: -5 });
    const next = await round(claimed);
    expect(inputs(next.claimed)).toEqual(["urgent"]);
    expect(await counts(queue)).toEqual([{ ready: 0, parked: 1 }]);
    expect(inputs((await round(next.claimed)).claimed)).toEqual(["parked"]);
  });

  test("in several queues is taken from one, and waits in the others", async () => {
    const { queue, exclusiveKey, round } = scene();
    const other = `${queue}-other`;
    const both = { queues: [queue, other], room: [null, null] };
    await everbeat.enqueueMany(noop, [1, 2], { options: { queue, exclusiveKey } });
    await everbeat.enqueueMany(noop, [3, 4], { options: { queue: other, exclusiveKey } });
    let { claimed } = await round([], both);
    const order = [...inputs(claimed)];
    while (claimed.length > 0) {
      expect(claimed).toHaveLength(1);
      ({ claimed } = await round(claimed, both));
      order.push(...inputs(claimed));
    }
    expect(order.sort()).toEqual([1, 2, 3, 4]);
  });

  test.each([
    ["is of a name that this worker does not know", {}, { names: ["other"] }, undefined],
    ["has no room in its queue", {}, { room: [0] }, undefined],
    ["is in a paused queue", {}, {}, (queue: string) => everbeat.queues.pause(queue)],
    ["has no budget", { rateLimit: { key: "of-followers", limit: 1, per: "1h" } }, {}, undefined],
    [
      "has expired",
      { expiresIn: "1h" },
      {},
      (queue: string) =>
        database.query("update everbeat.parked set expires_at = now() where queue = $1 returning 1", [queue]),
    ],
  ] as const)("is not taken where it %s", async (_what, options, request, prepare) => {
    const { queue, exclusiveKey, round } = scene();
    await everbeat.enqueueMany(noop, [1, 2], { options: { queue, exclusiveKey, ...options } as never });
    const { claimed } = await round([]);
    expect(inputs(claimed)).toEqual([1]);
    await prepare?.(queue);
    expect((await round(claimed, request as never)).claimed).toEqual([]);
  });
});

describe("a search with much in its way", () => {
  test("says that it has not seen everything, and comes to an end", async () => {
    const { queue, exclusiveKey, round } = scene();
    const numbers = Array.from({ length: 100 }, (_, n) => n);
    await everbeat.enqueueMany(noop, numbers, { options: { queue, exclusiveKey } });
    await everbeat.enqueue(noop, "behind", { queue });
    const first = await round([], { run: 5 });
    expect([inputs(first.claimed), first.hasMore]).toEqual([[0], true]);
    let looks = 0;
    let found = first;
    while (found.hasMore) {
      found = await round([], { run: 5 });
      expect(++looks).toBeLessThan(10);
    }
    expect([inputs(found.claimed), await counts(queue)]).toEqual([["behind"], [{ ready: 0, parked: 99 }]]);
  });

  test("does not try again and again what somebody else is deciding on", async () => {
    const { queue, exclusiveKey, round } = scene();
    await everbeat.enqueueMany(noop, [1, 2, 3], { options: { queue, exclusiveKey } });
    const other = new pg.Client(database.url);
    await other.connect();
    onTestFinished(() => other.end());
    await other.query("begin");
    await other.query("select pg_advisory_xact_lock(everbeat.gate_lock_id('exclusive', $1))", [exclusiveKey]);
    expect(await round([], { run: 2 })).toMatchObject({ claimed: [], hasMore: false });
    expect(await counts(queue)).toEqual([{ ready: 3, parked: 0 }]);
    await other.query("commit");
    expect(inputs((await round([])).claimed)).toEqual([1]);
  });
});

test("a worker that follows one key finds other tasks all the same", { timeout: 120_000 }, async () => {
  const { queue, exclusiveKey } = scene();
  let followed = 0;
  let before: number | undefined;
  const chained = defineTask({ name: "chained", run: (_input: object) => void followed++ });
  const plain = defineTask({
    name: "plain",
    run: (_input: object) => {
      before = followed;
    },
  });
  const many = Array.from({ length: 20_000 }, () => ({}));
  await everbeat.enqueueMany(chained, many, { options: { queue, exclusiveKey } });
  const worker = await everbeat.work([chained, plain], { queues: [queue], concurrency: 50, handleSignals: false });
  await eventually(() => followed > 100, { within: 60_000, what: "a hundred that followed each other" });
  await everbeat.enqueue(plain, {}, { queue });
  await eventually(() => before !== undefined, { within: 60_000, what: "the plain task" });
  await worker.stop();
  expect(before).toBeLessThan(many.length);
  expect(await database.query("select from everbeat.running where queue = $1", [queue])).toEqual([]);
});

test("a worker that has fallen asleep beside a task takes the next with its end, and is not woken for it", {
  timeout: 120_000,
}, async () => {
  const { queue, exclusiveKey } = scene();
  await database.query(`alter database ${database.name} set track_functions = 'all'`);
  const counted = await Everbeat.open({ database: database.url, log: "silent" });
  onTestFinished(() => counted.close({ now: true }));
  const TASKS = 40;
  let handled = 0;
  const slow = defineTask({
    name: "slow",
    run: async (_input: object) => {
      await untilAsleep();
      handled++;
    },
  });
  /** It has looked, armed its bell, looked again and asked when the next is due: that was all, until something happens. */
  const untilAsleep = () =>
    eventually(() => database.query("select from everbeat.bell where queue = $1 and armed", [queue]), {
      until: (rows) => rows.length > 0,
      what: "an armed bell",
    });
  const calls = async (name: string) => {
    const [row] = await database.query<{ n: number }>(
      "select coalesce(sum(calls), 0)::int as n from pg_stat_user_functions where funcname = $1",
      [name],
    );
    return row?.n ?? 0;
  };
  await counted.enqueueMany(slow, new Array(TASKS).fill({}), { options: { queue, exclusiveKey } });
  const worker = await counted.work([slow], { queues: [queue], handleSignals: false });
  await eventually(() => handled === TASKS, { within: 60_000, what: "the end of all" });
  await worker.stop();
  await counted.close();
  // The server adds up what a session did when that is over, or a little later.
  await eventually(() => calls("end_claims"), { until: (n) => n >= TASKS, what: "the counts of all ends" });
  // One that is woken for each arms its bell anew after each. How often it looks besides depends on how slow the machine is.
  expect(await calls("arm_bells")).toBeLessThan(TASKS / 4);
});

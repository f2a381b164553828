/** What another transaction keeps locked is passed by: a queue's row, a rate, an exclusive key. All else is claimed, and it too once it is free. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { Alerts } from "../../src/alerts/alerts.ts";
import { Events } from "../../src/events.ts";
import type { LaneCursor } from "../../src/sql/claims.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { LockedQueues } from "../../src/worker/locked-queues.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat, database } = await openTestEverbeat();

function scene() {
  const [name, queue, other] = [`n-${randomUUID()}`, `q-${randomUUID()}`, `q-${randomUUID()}`];
  const done: unknown[] = [];
  const task = defineTask({ name, run: (input: unknown) => void done.push(input) });
  const put = (inputs: readonly unknown[], options: object = {}) =>
    everbeat.enqueueMany(task, inputs, { options: { queue, ...options } });
  const claimer = handClaimer(everbeat.database, [name]);
  return {
    ...{ name, queue, other, put },
    doneOf: (kind: string) => done.filter((input) => String(input).startsWith(kind)),
    look: (run = 10, cursors: readonly LaneCursor[] = []) =>
      claimer.look({ queues: [queue, other], room: [null, null], run, cursors }),
    /** It is told of new tasks, and else looks once a minute. */
    async work() {
      const options = { queues: [queue, other], concurrency: 10, pollInterval: "1m", handleSignals: false } as const;
      const worker = await everbeat.work([task], options);
      onTestFinished(() => worker.stop({ now: true }));
    },
  };
}
type Scene = ReturnType<typeof scene>;

const several = (kind: string, count: number) => Array.from({ length: count }, (_, n) => `${kind} ${n}`);

/** From now on until it is let go. */
async function hold(lock: string, values: unknown[]) {
  const client = new pg.Client(database.url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("begin");
  await client.query(lock, values);
  return { letGo: () => client.query("commit") };
}
const holdKeys = (keys: readonly string[]) =>
  hold("select pg_advisory_xact_lock(everbeat.gate_lock_id('exclusive', k)) from unnest($1::text[]) k", [keys]);

/** Puts tasks in that are held up, and whoever holds them up has the lock by then. */
const HELD_UP: [string, number, (scene: Scene) => ReturnType<typeof hold>][] = [
  [
    "the row of a queue that has a limit",
    1,
    async ({ other, put }) => {
      await everbeat.queues.set(other, { concurrency: 5 });
      await put(["held"], { queue: other });
      return hold("select from everbeat.queue where name = $1 for update", [other]);
    },
  ],
  [
    "what counts the rate of a queue",
    2,
    async ({ other, put }) => {
      await everbeat.queues.set(other, { rateLimit: { limit: 1_000, per: "1s" } });
      await put(["held 1"], { queue: other });
      expect(await database.query("select everbeat.take_rate($1, 1000, 1000, 1)", [`queue/${other}`])).toHaveLength(1);
      await put(["held 2"], { queue: other });
      return hold("select from everbeat.rate where key = $1 for update", [`queue/${other}`]);
    },
  ],
  [
    "what counts the rate of a queue, before it is there",
    1,
    async ({ other, put }) => {
      await everbeat.queues.set(other, { rateLimit: { limit: 1_000, per: "1s" } });
      await put(["held"], { queue: other });
      return hold("insert into everbeat.rate (key, spent_until, deferred_until) values ($1, now(), now())", [
        `queue/${other}`,
      ]);
    },
  ],
  [
    "what counts the rate of a key",
    20,
    async ({ put }) => {
      const key = randomUUID();
      await database.query("select everbeat.take_rate($1, 1000, 1000, 1)", [`key/${key}`]);
      await put(several("held", 20), { rateLimit: { key, limit: 1_000, per: "1s" } });
      return hold("select from everbeat.rate where key = $1 for update", [`key/${key}`]);
    },
  ],
  ...[12, 300].map(
    (count) =>
      [
        `the exclusive key of ${count} tasks`,
        count,
        async ({ put }: Scene) => {
          const exclusiveKey = randomUUID();
          await put(several("held", count), { exclusiveKey, exclusiveLimit: 5 });
          return holdKeys([exclusiveKey]);
        },
      ] satisfies (typeof HELD_UP)[number],
  ),
  [
    "the exclusive keys of 150 tasks, each with its own",
    150,
    async ({ put }) => {
      const keys = several("key", 150).map((key) => `${key} ${randomUUID()}`);
      const held = await holdKeys(keys);
      for (const [n, exclusiveKey] of keys.entries()) await put([`held ${n}`], { exclusiveKey });
      return held;
    },
  ],
];

describe.each(HELD_UP)("a transaction that keeps %s", (_, count, holdUp) => {
  test("holds up no other task; and when it has ended, those that it held up run soon", async () => {
    const own = scene();
    const held = await holdUp(own);
    await own.put(several("other", 50));
    await own.work();
    await eventually(() => own.doneOf("other"), { until: (done) => done.length === 50, within: 20_000 });
    // It is still so when more come.
    await own.put(several("more", 20));
    await eventually(() => own.doneOf("more"), { until: (done) => done.length === 20, within: 20_000 });
    expect(own.doneOf("held")).toEqual([]);
    await held.letGo();
    await eventually(() => own.doneOf("held"), { until: (done) => done.length === count, within: 20_000 });
  }, 70_000);
});

describe("a key for which thousands wait, and that somebody has locked,", () => {
  const MANY = 9_000;

  test("costs a search no more than a part of them, and the next one goes on behind it", async () => {
    const { put, look } = scene();
    const exclusiveKey = randomUUID();
    await put(several("held", MANY), { exclusiveKey });
    await put(several("other", 5));
    const held = await holdKeys([exclusiveKey]);
    const found = [await look()];
    while (found.at(-1)?.isCutShort) found.push(await look(10, found.at(-1)?.cursors));
    expect(found.map(({ isCutShort }) => isCutShort)).toEqual([true, true, true, true, false]);
    expect(found.map(({ claimed }) => claimed.length)).toEqual([0, 0, 0, 0, 5]);
    for (const { isHeldUp, hasMore, seenUpTo, isCutShort } of found) {
      expect({ isHeldUp, hasMore }).toEqual({ isHeldUp: true, hasMore: false });
      if (isCutShort) expect(seenUpTo).toBeUndefined();
    }
    await held.letGo();
    expect((await look()).claimed.map(({ input }) => input)).toEqual(["held 0"]);
  }, 30_000);

  test("starves nobody: what is behind them is run, and they are when it is free", async () => {
    const own = scene();
    const exclusiveKey = randomUUID();
    await own.put(several("held", MANY), { exclusiveKey, exclusiveLimit: 5 });
    const held = await holdKeys([exclusiveKey]);
    // Nobody knows these. So the last part of a search meets nothing that is held, and is held up all the same.
    const unknown = defineTask({ name: `unknown-${randomUUID()}`, run: () => null });
    await everbeat.enqueueMany(unknown, new Array(5_000).fill(undefined), { options: { queue: own.queue } });
    await own.put(several("other", 50));
    await own.work();
    await eventually(() => own.doneOf("other"), { until: (done) => done.length === 50, within: 20_000 });
    for (let n = 1; n <= 20; n++) {
      await own.put([`more ${n}`], n % 2 === 0 ? { exclusiveKey: `free ${n}` } : {});
      await eventually(() => own.doneOf("more"), { until: (done) => done.length === n, within: 20_000 });
    }
    // It has fallen asleep, and nobody wakes it.
    const looks = () =>
      database.query(
        `select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
           and query ~ 'claim_tasks|next_due_ms' and (state <> 'idle' or query_start > now() - interval '30 ms')`,
      );
    await eventually(looks, { until: (all) => all.length === 0, within: 20_000 });
    expect(own.doneOf("held")).toEqual([]);
    await held.letGo();
    await eventually(() => own.doneOf("held"), { until: (done) => done.length > 100, within: 20_000 });
  }, 70_000);
});

describe("a search that was held up", () => {
  test("says so, and neither that there is more nor that all was seen", async () => {
    const { put, look, queue } = scene();
    const exclusiveKey = randomUUID();
    await put(["held"], { exclusiveKey });
    await database.query("update everbeat.ready set run_at = now() - interval '1 minute' where queue = $1", [queue]);
    await put(["other"]);
    const held = await holdKeys([exclusiveKey]);
    for (const inputs of [["other"], []]) {
      const found = await look();
      expect(found).toMatchObject({ isHeldUp: true, hasMore: false });
      expect(found.claimed.map(({ input }) => input)).toEqual(inputs);
      const unseen = "select from everbeat.ready where queue = $1 and run_at > $2::timestamptz";
      expect(await database.query(unseen, [queue, found.seenUpTo])).toHaveLength(1);
    }
    await held.letGo();
    const found = await look();
    expect(found).toMatchObject({ isHeldUp: false, hasMore: false, seenUpTo: expect.any(String) });
    expect(found.claimed.map(({ input }) => input)).toEqual(["held"]);
  });

  test("by the row of a queue has waited for it only for a moment, and names it; a second one is not waited for", async () => {
    const { queue, other, put, look } = scene();
    for (const one of [queue, other]) {
      await everbeat.queues.set(one, { concurrency: 0 });
      await put([1], { queue: one });
    }
    expect(await look()).toMatchObject({ isHeldUp: false, lockedQueue: undefined });
    const held = await hold("select from everbeat.queue where name = any ($1) for update", [[queue, other]]);
    const found = await look();
    expect(found).toMatchObject({ isHeldUp: true, hasMore: false });
    expect([queue, other]).toContain(found.lockedQueue);
    await held.letGo();
  });
});

test("a queue whose row stays locked is told of once, with an alert that ends when it is free", async () => {
  const queue = `q-${randomUUID()}`;
  const told: string[] = [];
  const fail = (error: unknown) => {
    throw error;
  };
  const events = new Events(fail);
  events.on("queue.locked", (event) => told.push(event.queue));
  const alerts = new Alerts({ database: everbeat.database, onRefused: fail });
  const locked = new LockedQueues({ alerts, events });
  const isOpen = async () =>
    (await everbeat.alerts.list({ open: true })).some(
      ({ kind, subject }) => kind === "queue-locked" && subject === queue,
    );
  // Not where it was locked now and then.
  for (const seconds of [0, 1, 7, 8, 14, 15]) locked.note(queue, [], seconds * 1_000);
  locked.note("another", [], 15_000);
  expect([told, await isOpen()]).toEqual([[], false]);
  // Nor where tasks of it are claimed all the while.
  for (let seconds = 16; seconds < 60; seconds++) {
    locked.note(queue, [], seconds * 1_000);
    if (seconds % 4 === 0) locked.note(undefined, [{ queue }], seconds * 1_000);
  }
  expect([told, await isOpen()]).toEqual([[], false]);
  for (const seconds of [66, 68, 72, 75, 76, 80]) locked.note(queue, [], seconds * 1_000);
  await eventually(() => told, { until: ([name]) => name === queue, what: "the event" });
  expect([told.length, await isOpen()]).toEqual([1, true]);
  locked.note(undefined, [], 81_000);
  locked.note("another", [], 84_000);
  expect(await isOpen()).toBe(true);
  // It is raised again if it is gone while the lock is there.
  await database.query("delete from everbeat.alert where subject = $1", [queue]);
  await alerts.sayAgain();
  await eventually(isOpen, { what: "the alert again" });
  locked.note(undefined, [], 90_000);
  await eventually(isOpen, { until: (open) => !open, what: "the end of the alert" });
  // A worker that stops tells no more of it.
  for (let seconds = 200; seconds < 220; seconds += 4) locked.note(queue, [], seconds * 1_000);
  await eventually(isOpen, { what: "the alert" });
  locked.stop();
  await alerts.written();
  expect(await isOpen()).toBe(false);
});

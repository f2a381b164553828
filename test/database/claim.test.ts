import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { adoptClaims, readOutlook, startClaims } from "../../src/sql/claims.ts";
import { runUpkeep } from "../../src/sql/upkeep.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer, releaseClaims } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const claimer = handClaimer(everbeat.database, ["noop"]);
/** A queue of the test's own and a claim that looks only there. */
const ownQueue = () => {
  const queue = `q-${randomUUID()}`;
  return { queue, claim: (run = 100, prefetch = 0) => claimer.claim({ queues: [queue], room: [null], run, prefetch }) };
};
const inputs = (tasks: readonly { input: unknown }[]) => tasks.map((task) => task.input);

describe("a claim", () => {
  test("takes strictly by priority, and first in first out within one", async () => {
    const { queue, claim } = ownQueue();
    for (const [input, priority] of [
      ["c", 5],
      ["a", -5],
      ["b", 0],
      ["a2", -5],
      ["c2", 5],
    ] as const)
      await everbeat.enqueue(noop, input, { queue, priority });
    expect(inputs(await claim(3))).toEqual(["a", "a2", "b"]);
    expect(inputs(await claim())).toEqual(["c", "c2"]);
  });

  test("starts what there is a slot for and claims the rest ahead", async () => {
    const { queue, claim } = ownQueue();
    await everbeat.enqueueMany(noop, [1, 2, 3, 4], { options: { queue } });
    const claimed = await claim(2, 1);
    expect(claimed.map((task) => task.state)).toEqual(["running", "running", "claimed"]);
    expect(claimed.map((task) => Number(task.claimId))).toEqual(
      [...claimed.map((task) => Number(task.claimId))].sort((a, b) => a - b),
    );
  });

  test("never takes a task twice, however many claim at once", async () => {
    const { queue } = ownQueue();
    await everbeat.enqueueMany(
      noop,
      Array.from({ length: 500 }, (_, n) => n),
      { options: { queue } },
    );
    const rounds = await Promise.all(
      Array.from({ length: 20 }, () =>
        handClaimer(everbeat.database, ["noop"]).claim({ queues: [queue], room: [null], run: 40 }),
      ),
    );
    const ids = rounds.flat().map((task) => task.taskId);
    expect(new Set(ids).size).toBe(ids.length);
    const rest = await claimer.claim({ queues: [queue], room: [null], run: 1_000 });
    expect(ids.length + rest.length).toBe(500);
  });

  test("leaves what is not due, and knows when it will be", async () => {
    const { queue, claim } = ownQueue();
    await everbeat.enqueue(noop, "later", { queue, delay: "30s" });
    await everbeat.enqueue(noop, "sooner", { queue, runAt: new Date(Date.now() + 20_000) });
    expect(await claim()).toEqual([]);
    const { dueMs: due } = await readOutlook(everbeat.database, ["noop"], [queue]);
    expect(due).toBeGreaterThan(15_000);
    expect(due).toBeLessThanOrEqual(21_000);
    expect((await readOutlook(everbeat.database, ["another"], [queue])).dueMs).toBeUndefined();
  });

  test("leaves tasks of unknown name for a worker that knows them, and they are shown as such", async () => {
    const { queue, claim } = ownQueue();
    const id = await everbeat.enqueue(defineTask({ name: "exotic", run: (_input: unknown) => null }), 1, { queue });
    expect(await claim()).toEqual([]);
    expect(await everbeat.tasks.show(id)).toMatchObject({ state: "pending", isUnknown: true });
    expect(await handClaimer(everbeat.database, ["exotic"]).claim({ queues: [queue], room: [null] })).toHaveLength(1);
  });

  test("takes from each queue no more than it has room for", async () => {
    const [a, b] = [ownQueue().queue, ownQueue().queue];
    await everbeat.enqueueMany(noop, [1, 2, 3], { options: { queue: a } });
    await everbeat.enqueueMany(noop, [1, 2, 3], { options: { queue: b } });
    const claimed = await claimer.claim({ queues: [a, b], room: [1, null], run: 10 });
    expect(claimed.filter((task) => task.queue === a)).toHaveLength(1);
    expect(claimed.filter((task) => task.queue === b)).toHaveLength(3);
  });

  test("goes on where the last one ended, and a full look finds what lies before", async () => {
    const { queue, claim } = ownQueue();
    await everbeat.enqueueMany(noop, ["first", "second"], { options: { queue } });
    const { cursors } = await claimer.look({ queues: [queue], room: [null], run: 1 });
    await everbeat.enqueue(noop, "earlier", { queue, runAt: new Date(Date.now() - 60_000) });
    expect(inputs(await claimer.claim({ queues: [queue], room: [null], cursors }))).toEqual(["second"]);
    expect(inputs(await claim())).toEqual(["earlier"]);
  });

  test("whose reply was lost is found again by its owner", async () => {
    const { queue } = ownQueue();
    await everbeat.enqueueMany(noop, [1, 2], { options: { queue } });
    const own = handClaimer(everbeat.database, ["noop"]);
    const claimed = await own.claim({ queues: [queue], room: [null] });
    const adopted = await adoptClaims(everbeat.database, own.replicaId, [claimed[0] as never]);
    expect(adopted.map((task) => task.claimId)).toEqual([claimed[1]?.claimId]);
    expect(adopted[0]).toMatchObject({ input: 2, state: "running" });
  });

  test("that was not started can be given back to its place, with nothing spent", async () => {
    const { queue, claim } = ownQueue();
    await everbeat.enqueueMany(noop, ["a", "b"], { options: { queue } });
    const [a] = await claim(0, 1);
    expect(await releaseClaims(everbeat.database, [a as never])).toEqual([a?.claimId]);
    expect(await everbeat.tasks.show(a?.taskId as string)).toMatchObject({ state: "pending", attempt: 0 });
    expect((await claim()).map((task) => [task.input, task.attempt])).toEqual([
      ["a", 1],
      ["b", 1],
    ]);
  });

  test("that was started cannot be given back, and one that was given back cannot be started", async () => {
    const { queue, claim } = ownQueue();
    await everbeat.enqueueMany(noop, ["a", "b"], { options: { queue } });
    const [a, b] = await claim(0, 2);
    expect(await startClaims(everbeat.database, [a as never])).toEqual({ started: [a?.claimId], locked: [] });
    // Said again because the reply was lost: it is the same start.
    expect(await startClaims(everbeat.database, [a as never])).toEqual({ started: [a?.claimId], locked: [] });
    expect(await releaseClaims(everbeat.database, [a as never, b as never])).toEqual([b?.claimId]);
    expect(await startClaims(everbeat.database, [b as never])).toEqual({ started: [], locked: [] });
  });
});

describe("a paused queue", () => {
  test("starts nothing until it is resumed, and what runs goes on", async () => {
    const { queue, claim } = ownQueue();
    await everbeat.enqueueMany(noop, [1, 2], { options: { queue } });
    const [running] = await claim(1);
    await everbeat.queues.pause(queue);
    expect(await claim()).toEqual([]);
    expect((await claimer.complete(running as never)).late).toEqual([]);
    await everbeat.queues.resume(queue);
    expect(await claim()).toHaveLength(1);
  });

  test("may be paused before it has ever been used", async () => {
    const { queue, claim } = ownQueue();
    await everbeat.queues.pause(queue);
    await everbeat.enqueue(noop, 1, { queue });
    expect(await claim()).toEqual([]);
    expect((await everbeat.queues.list()).find((row) => row.name === queue)).toMatchObject({
      isPaused: true,
      ready: 1,
    });
  });

  test("cannot have any name", async () => {
    await expect(everbeat.queues.pause("no spaces")).rejects.toThrow(/letters, digits/);
    await expect(everbeat.queues.set("q", { concurency: 1 } as never)).rejects.toThrow(/did you mean "concurrency"/);
  });
});

describe("a queue's concurrency across the cluster", () => {
  test("holds for all replicas together, also when they claim at once, and for what ran before it was set", async () => {
    const { queue } = ownQueue();
    await everbeat.enqueueMany(
      noop,
      Array.from({ length: 50 }, (_, n) => n),
      { options: { queue } },
    );
    const claimOne = (run: number) =>
      handClaimer(everbeat.database, ["noop"]).claim({ queues: [queue], room: [null], run });
    const before = await claimOne(2);
    await everbeat.queues.set(queue, { concurrency: 5 });
    const rounds = await Promise.all(Array.from({ length: 10 }, () => claimOne(3)));
    expect(before.length + rounds.flat().length).toBe(5);
    await claimer.complete(before[0] as never);
    expect(await claimOne(9)).toHaveLength(1);
    await everbeat.queues.set(queue, { concurrency: null });
    expect(await claimOne(100)).toHaveLength(44);
  });
});

describe("an exclusive key", () => {
  const exclusive = (limit = 1) => ({ exclusiveKey: `k-${randomUUID()}`, exclusiveLimit: limit, ...ownQueue() });

  test("lets one task at a time run, in order, whoever claims", async () => {
    const { claim, ...options } = exclusive();
    const ids = await everbeat.enqueueMany(noop, [1, 2, 3], { options });
    const order: unknown[] = [];
    for (let turn = 0; turn < 3; turn++) {
      const running = (await Promise.all([claim(), claim(), claim()])).flat();
      expect(running).toHaveLength(1);
      order.push(running[0]?.input);
      await claimer.complete(running[0] as never);
    }
    expect(order).toEqual([1, 2, 3]);
    expect(await Promise.all(ids.map(async (id) => (await everbeat.tasks.show(id)).state))).toEqual([
      "completed",
      "completed",
      "completed",
    ]);
  });

  test("with a limit lets that many run", async () => {
    const { claim, ...options } = exclusive(3);
    await everbeat.enqueueMany(noop, [1, 2, 3, 4, 5], { options });
    const running = await claim();
    expect(running).toHaveLength(3);
    await claimer.complete(running[0] as never);
    expect(await claim()).toHaveLength(1);
  });

  test("with mixed limits goes by the limit of each task, so that one may start beside a task that should be alone", async () => {
    const { claim, ...options } = exclusive();
    const alone = (input: string) => everbeat.enqueue(noop, input, options);
    const shared = (input: string) => everbeat.enqueue(noop, input, { ...options, exclusiveLimit: 3 });
    await alone("first");
    const [first] = await claim();
    await shared("beside");
    await alone("waits");
    expect(inputs(await claim())).toEqual(["beside"]);
    await claimer.complete(first as never);
    expect(await claim()).toEqual([]);
  });

  test("shows what waits for it as parked, and does not hold back others in the queue", async () => {
    const { claim, ...options } = exclusive();
    const [, second] = await everbeat.enqueueMany(noop, [1, 2], { options });
    await everbeat.enqueue(noop, "free", { queue: options.queue });
    expect(inputs(await claim())).toEqual([1, "free"]);
    expect(await everbeat.tasks.show(second as string)).toMatchObject({ state: "pending", isParked: true });
  });

  test("is free again while its task waits for a retry, and after it was cancelled", async () => {
    const { claim, ...options } = exclusive();
    await everbeat.enqueueMany(noop, [1, 2, 3], { options });
    const [first] = await claim();
    await claimer.end([
      {
        claim: first?.claimId as never,
        task: first?.taskId as never,
        replica: claimer.replicaId,
        to: "pending",
        outcome: "failed",
        delayMs: 60_000,
        failures: 1,
      },
    ]);
    const [second] = await claim();
    expect(second?.input).toBe(2);
    await everbeat.tasks.cancel(second?.taskId as string, { grace: 0 });
    await database.query(
      "update everbeat.running set cancel_force_at = now() - interval '1 minute' where task_id = $1",
      [second?.taskId],
    );
    await runUpkeep(everbeat.database, 100);
    expect(inputs(await claim())).toEqual([3]);
  });

  test("is given back with a claim that was never started", async () => {
    const { claim, ...options } = exclusive();
    await everbeat.enqueueMany(noop, [1, 2], { options });
    const [first] = await claim(0, 5);
    await releaseClaims(everbeat.database, [first as never]);
    expect(inputs(await claim())).toEqual([1]);
  });

  test("does not strand a task behind one that was let go in a paused queue", async () => {
    const { claim, ...options } = exclusive();
    const paused = ownQueue().queue;
    await everbeat.enqueue(noop, "holder", options);
    await claim();
    await everbeat.enqueue(noop, "in the paused queue", { ...options, queue: paused });
    await claimer.claim({ queues: [paused], room: [null] });
    await everbeat.enqueue(noop, "waits", options);
    await claim();
    await everbeat.queues.pause(paused);
    const [holder] = await database.query<{ claim_id: string; task_id: string }>(
      "select claim_id, task_id from everbeat.running where exclusive_key = $1",
      [options.exclusiveKey],
    );
    await claimer.complete({ claimId: holder?.claim_id, taskId: holder?.task_id } as never);
    await runUpkeep(everbeat.database, 100);
    expect(inputs(await claim())).toEqual(["waits"]);
  });
});

describe("a rate limit", () => {
  const spend = async (key: string, ms: number) =>
    database.query(
      `update everbeat.rate set spent_until = spent_until - $2 * interval '1 ms', deferred_until = deferred_until - $2 * interval '1 ms' where key = $1`,
      [key, ms],
    );

  test("of a key lets its budget go, puts the rest off in order, and earns it back with time", async () => {
    const { queue, claim } = ownQueue();
    const key = `r-${randomUUID()}`;
    await everbeat.enqueueMany(noop, [1, 2, 3, 4, 5, 6], {
      options: { queue, rateLimit: { key, limit: 2, per: "10s" } },
    });
    expect(inputs(await claim())).toEqual([1, 2]);
    expect(await claim()).toEqual([]);
    await spend(`key/${key}`, 5_000);
    await database.query("update everbeat.ready set run_at = run_at - interval '5 s' where queue = $1", [queue]);
    expect(inputs(await claim())).toEqual([3]);
    // After a long pause everything is due at once, and still no more than the budget may go.
    await spend(`key/${key}`, 3_600_000);
    await database.query("update everbeat.ready set run_at = run_at - interval '1 hour' where queue = $1", [queue]);
    expect(inputs(await claim())).toEqual([4, 5]);
    expect(await claim()).toEqual([]);
  });

  test("of a queue holds for everything in it", async () => {
    const { queue, claim } = ownQueue();
    await everbeat.queues.set(queue, { rateLimit: { limit: 3, per: "1m" } });
    await everbeat.enqueueMany(noop, [1, 2, 3, 4], { options: { queue } });
    expect(inputs(await claim())).toEqual([1, 2, 3]);
    expect(await claim()).toEqual([]);
    await spend(`queue/${queue}`, 20_000);
    expect(inputs(await claim())).toEqual([4]);
  });

  test("of a queue does not spend the rates of tasks that it then does not let go", async () => {
    const { queue, claim } = ownQueue();
    await everbeat.queues.set(queue, { rateLimit: { limit: 10, per: "1m" } });
    const numbers = Array.from({ length: 100 }, (_, n) => n);
    await everbeat.enqueueMany(noop, numbers, {
      options: (n) => ({ queue, rateLimit: { key: `${queue}-${n}`, limit: 1, per: "1h" } }),
    });
    // A minute after the other, and each time as many as the queue lets go: none of them has lost its hour to a claim before.
    const started: unknown[] = [];
    for (let minute = 0; minute < 10; minute++) {
      started.push(...inputs(await claim(100)));
      expect(await claim(100)).toEqual([]);
      await spend(`queue/${queue}`, 60_000);
    }
    expect(started).toEqual(numbers);
  });

  test("of a queue is not spent by tasks whose own rate holds them back", async () => {
    const { queue, claim } = ownQueue();
    await everbeat.queues.set(queue, { rateLimit: { limit: 3, per: "1m" } });
    const options = { queue, rateLimit: { key: queue, limit: 1, per: "1h" as const } };
    await everbeat.enqueueMany(noop, ["a", "b", "c", "d"], { options });
    await everbeat.enqueueMany(noop, [1, 2, 3], { options: { queue } });
    expect(inputs(await claim())).toEqual(["a", 1, 2]);
  });
});

describe("expiry", () => {
  test("a task that is not started in time never is, whether a claim meets it or upkeep", async () => {
    const { queue, claim } = ownQueue();
    const [met, idle] = await everbeat.enqueueMany(noop, [1, 2], {
      options: (n) => ({ queue: n === 1 ? queue : `${queue}-idle`, expiresIn: "1h" }),
    });
    await database.query("update everbeat.ready set expires_at = now() where task_id = any ($1::uuid[])", [
      [met, idle],
    ]);
    expect(await claim()).toEqual([]);
    await runUpkeep(everbeat.database, 100);
    for (const id of [met, idle])
      expect(await everbeat.tasks.show(id as string)).toMatchObject({
        state: "expired",
        attempt: 0,
        error: { code: "TASK_EXPIRED" },
      });
  });

  test("also while it waits for its exclusive key; one that runs is left alone", async () => {
    const { queue, claim } = ownQueue();
    const ids = await everbeat.enqueueMany(noop, [1, 2], { options: { queue, exclusiveKey: queue, expiresIn: "1h" } });
    await claim();
    await database.query("update everbeat.parked set expires_at = now() where queue = $1", [queue]);
    await runUpkeep(everbeat.database, 100);
    expect((await everbeat.tasks.show(ids[0] as string)).state).toBe("running");
    expect((await everbeat.tasks.show(ids[1] as string)).state).toBe("expired");
  });
});

test("an armed bell rings once, for whoever enqueues next", async () => {
  const { queue } = ownQueue();
  const armed = async () =>
    (await database.query<{ armed: boolean }>("select armed from everbeat.bell where queue = $1", [queue]))[0]?.armed;
  await claimer.claim({ queues: [queue], room: [null], run: 1, arms: true });
  expect(await armed()).toBe(true);
  await everbeat.enqueue(noop, 1, { queue });
  expect(await armed()).toBe(false);
});

import { AssertionError } from "node:assert";
import { afterAll, beforeAll, beforeEach, describe, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { defineTask, Everbeat, InvalidOptionsError, type TaskContext, type Transaction } from "../../src/index.ts";
import {
  advanceTime,
  assertEnqueued,
  DrainTimeoutError,
  drain,
  enqueued,
  openTestEverbeat,
} from "../../src/testing/index.ts";
import { createCallersPool } from "../support/callers-pool.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const double = defineTask({
  name: "double",
  input: z.object({ n: z.number(), note: z.string().default("none") }),
  retry: { attempts: 3, backoff: "fixed", delay: "1m", jitter: 0, unless: ["POINTLESS"] },
  run: ({ n, note }, { log, task }) => {
    log.info({ n }, "doubling");
    if (n < 0) throw Object.assign(new Error("negative"), { code: n < -1 ? "POINTLESS" : "NEGATIVE" });
    return { doubled: n * 2, note, attempt: task.attempt };
  },
});

describe("on a database", () => {
  let database: TestDatabase;
  let everbeat: Everbeat;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());
  beforeEach(async ({ onTestFinished }) => {
    everbeat = await openTestEverbeat({ database: database.url });
    onTestFinished(() => everbeat.close());
  });

  test("what is no task is refused, instead of not found", async () => {
    await everbeat.enqueue(double, { n: 1 });
    const no = /the second argument must be a task made by defineTask/;
    await expect(assertEnqueued(everbeat, "double" as never, { times: 0 })).rejects.toThrow(no);
    await expect(assertEnqueued(everbeat, {} as never, { times: 0 })).rejects.toThrow(no);
    await expect(enqueued(everbeat, "double" as never)).rejects.toThrow(no);
  });

  test("an Everbeat for tests has a schema of its own, which goes when it is closed", async () => {
    const other = await openTestEverbeat({ database: database.url });
    await other.enqueue(double, { n: 1 });
    expect(await enqueued(everbeat, double)).toEqual([]);
    expect(other.database.schemaName).not.toBe(everbeat.database.schemaName);
    await other.work([double], { handleSignals: false });
    await Promise.all([other.close(), other.close()]);
    const named = (name: string) => database.query("select from pg_namespace where nspname = $1", [name]);
    expect(await named(other.database.schemaName)).toHaveLength(0);
    expect(await named(everbeat.database.schemaName)).toHaveLength(1);
  });

  test("`await using` drops the schema, and a pool of the caller's stays open", async ({ onTestFinished }) => {
    const pool = createCallersPool({ connectionString: database.url }, onTestFinished);
    const own = await openTestEverbeat({ database: pool });
    await own[Symbol.asyncDispose]();
    const left = await pool.query("select from pg_namespace where nspname = $1", [own.database.schemaName]);
    expect(left.rowCount).toBe(0);
  });

  test("drain runs what is due, what that enqueues, and says how each attempt ended", async () => {
    const second = defineTask({ name: "second", run: (n: number) => n + 1 });
    const first = defineTask({
      name: "first",
      run: async (n: number) => {
        await everbeat.enqueue(second, n);
        return n;
      },
    });
    await everbeat.enqueueMany(first, [1, 2]);
    await everbeat.enqueue(double, { n: -2 });
    const later = await everbeat.enqueue(first, 3, { delay: "1h" });
    const ended = await drain(everbeat, [first, second, double], { concurrency: 1 });
    expect(ended).toMatchObject([
      { name: "first", outcome: "completed", result: 1, attempt: 1, error: null },
      { name: "first", outcome: "completed", result: 2 },
      { name: "double", outcome: "failed", error: { code: "POINTLESS" } },
      { name: "second", outcome: "completed", result: 2 },
      { name: "second", outcome: "completed", result: 3 },
    ]);
    expect(await enqueued(everbeat, first, { state: "pending" })).toMatchObject([{ id: later }]);
    expect(await drain(everbeat, [first, second, double])).toEqual([]);
  });

  test("drain leaves tasks of other names and paused queues alone, and ends", async () => {
    await everbeat.enqueue(double, { n: 1 });
    const other = defineTask({ name: "other", queue: "paused", run: () => 1 });
    await everbeat.enqueue(other, undefined);
    await everbeat.queues.pause("paused");
    expect(await drain(everbeat, [other])).toEqual([]);
    await assertEnqueued(everbeat, double, { state: "pending", times: 1 });
  });

  test("drain goes through tasks that wait for an exclusive key", async () => {
    const task = defineTask({ name: "exclusive", run: (n: number) => n });
    await everbeat.enqueueMany(task, [1, 2, 3, 4], { options: { exclusiveKey: "k" } });
    const ended = await drain(everbeat, [task]);
    expect(ended.map(({ result }) => result)).toEqual([1, 2, 3, 4]);
  });

  test("drain that takes too long says what is left, and takes its worker with it", async () => {
    const endless = defineTask({
      name: "endless",
      run: (_: undefined, { signal }: TaskContext) =>
        new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    });
    const id = await everbeat.enqueue(endless, undefined);
    const error = await drain(everbeat, [endless], { timeout: 3_000 }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(DrainTimeoutError);
    expect((error as Error).message).toContain(`endless ${id}, running in queue default`);
    expect(await everbeat.tasks.show(id)).toMatchObject({ state: "pending", attempts: [{ outcome: "aborted" }] });
  });

  test("drain can go on until something is true", async () => {
    await everbeat.enqueue(double, { n: 1 }, { delay: 300 });
    const ended = await drain(everbeat, [double], {
      until: async () => (await enqueued(everbeat, double, { state: "completed" })).length === 1,
    });
    expect(ended).toMatchObject([{ outcome: "completed" }]);
    await expect(drain(everbeat, [double], { until: () => false, timeout: 100 })).rejects.toThrow(/"until" had not/);
  });

  test("advancing time makes delayed tasks and retries due, in steps", async () => {
    await everbeat.enqueue(double, { n: 4 }, { delay: "1h" });
    await everbeat.enqueue(double, { n: -1 });
    expect(await drain(everbeat, [double])).toMatchObject([{ outcome: "failed", attempt: 1 }]);
    await advanceTime(everbeat, "20s");
    expect(await drain(everbeat, [double])).toEqual([]);
    await advanceTime(everbeat, "40s");
    expect(await drain(everbeat, [double])).toMatchObject([{ outcome: "failed", attempt: 2 }]);
    await advanceTime(everbeat, "1h");
    expect(await drain(everbeat, [double])).toMatchObject([
      { outcome: "failed", attempt: 3 },
      { outcome: "completed", result: { doubled: 8 } },
    ]);
  });

  test("advancing time ends what expires, and drain says so", async () => {
    const id = await everbeat.enqueue(double, { n: 1 }, { expiresIn: "10m" });
    await advanceTime(everbeat, "11m");
    expect(await drain(everbeat, [double])).toMatchObject([{ id, outcome: "expired", attempt: 0 }]);
  });

  test("advancing time passes a unique window, and earns a rate back", async () => {
    const options = { uniqueKey: "u", uniqueFor: "1h", delay: "1d" } as const;
    const id = await everbeat.enqueue(double, { n: 1 }, options);
    expect(await everbeat.enqueue(double, { n: 2 }, options)).toBe(id);
    await advanceTime(everbeat, "61m");
    expect(await everbeat.enqueue(double, { n: 2 }, options)).not.toBe(id);

    const limited = defineTask({ name: "limited", run: (n: number) => n });
    await everbeat.enqueueMany(limited, [1, 2, 3], {
      options: { rateLimit: { key: "r", limit: 1, per: "1h" } },
    });
    for (const result of [1, 2, 3]) {
      expect(await drain(everbeat, [limited])).toMatchObject([{ result }]);
      expect(await drain(everbeat, [limited])).toEqual([]);
      await advanceTime(everbeat, "1h");
    }
  });

  test("advancing time wakes a worker that sleeps until a task is due", async ({ onTestFinished }) => {
    const worker = await everbeat.work([double], { handleSignals: false, pollInterval: "1m" });
    onTestFinished(() => worker.stop());
    const id = await everbeat.enqueue(double, { n: 1 }, { delay: "1h" });
    const armed = `select from ${everbeat.database.schema}.bell where armed`;
    await eventually(async () => (await database.query(armed)).length > 0, { what: "an idle worker" });
    await advanceTime(everbeat, "1h");
    expect(await everbeat.result(id, { timeout: "5s" })).toMatchObject({ doubled: 2 });
  });

  test("advancing time while tasks are run loses none of them", async () => {
    const ids = await everbeat.enqueueMany(
      double,
      Array.from({ length: 500 }, (_, n) => ({ n })),
    );
    const worker = await everbeat.work([double], { handleSignals: false, pollInterval: 20 });
    for (let step = 0; step < 20; step++) await advanceTime(everbeat, "1m");
    await Promise.all(ids.map((id) => everbeat.result(id)));
    await worker.stop();
    expect(await everbeat.tasks.counts()).toMatchObject({ completed: 500, pending: 0, running: 0 });
  });

  test("advancing time refuses what is no duration", async () => {
    await expect(advanceTime(everbeat, -1)).rejects.toThrow(InvalidOptionsError);
    await expect(advanceTime(everbeat, "soon" as "1s")).rejects.toThrow(/must be a duration/);
  });

  test("enqueued lists tasks of a definition with their types, oldest first", async () => {
    const ids = await everbeat.enqueueMany(double, [{ n: 1 }, { n: 2 }], {
      options: ({ n }) => ({ queue: `q${n}`, metadata: { tenant: n, more: true }, uniqueKey: `u${n}` }),
    });
    const found = await enqueued(everbeat, double);
    expect(found).toMatchObject([
      { id: ids[0], state: "pending", queue: "q1", input: { n: 1 }, uniqueKey: "u1", attempt: 0, result: null },
      { id: ids[1], queue: "q2", input: { n: 2 } },
    ]);
    expectTypeOf(found[0]?.input).toEqualTypeOf<{ n: number; note?: string | undefined } | undefined>();
    expect(await enqueued(everbeat, double, { input: { n: 2 } })).toHaveLength(1);
    expect(await enqueued(everbeat, double, { input: ({ n }) => n > 0, metadata: { tenant: 1 } })).toHaveLength(1);
    expect(await enqueued(everbeat, double, { queue: "q2", state: ["pending", "running"] })).toHaveLength(1);
    expect(await enqueued(everbeat, double, { state: "completed" })).toEqual([]);
  });

  test("assertEnqueued returns what fits, and lists what there is where nothing does", async () => {
    await everbeat.enqueue(double, { n: 1 });
    await everbeat.enqueue(double, { n: 2, note: "two" }, { queue: "slow", metadata: { by: "me" } });
    expect(await assertEnqueued(everbeat, double)).toHaveLength(2);
    expect(await assertEnqueued(everbeat, double, { input: { note: "two" }, times: 1 })).toHaveLength(1);
    await assertEnqueued(everbeat, double, { input: ({ n }) => n > 5, times: 0 });

    const error = await assertEnqueued(everbeat, double, { input: { n: 3 } }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(AssertionError);
    expect((error as Error).message).toBe(
      [
        'Expected at least one task "double" with { input: { n: 3 } }, and 0 fit. Enqueued were:',
        "  - pending in queue default: { n: 1 }",
        "  - pending in queue slow: { n: 2, note: 'two' }, metadata { by: 'me' }",
      ].join("\n"),
    );
    await expect(assertEnqueued(everbeat, double, { times: 3 })).rejects.toThrow(/exactly 3 tasks "double", and 2 fit/);
    const never = defineTask({ name: "never", run: () => 1 });
    await expect(assertEnqueued(everbeat, never)).rejects.toThrow(/No task of this name was enqueued at all/);
  });

  test("an enqueue that was rolled back is not found", async () => {
    const undone = everbeat.database.transaction(async (tx) => {
      await everbeat.enqueue(double, { n: 1 }, { tx: tx as Transaction });
      throw new Error("undo");
    });
    await expect(undone).rejects.toThrow("undo");
    await assertEnqueued(everbeat, double, { times: 0 });
  });

  test("an Everbeat for tests can be opened by its class as well, on the same schema", async ({ onTestFinished }) => {
    const same = await Everbeat.open({
      database: database.url,
      schema: everbeat.database.schemaName,
      migrate: false,
      log: "silent",
    });
    onTestFinished(() => same.close());
    await same.enqueue(double, { n: 5 });
    await assertEnqueued(everbeat, double, { input: { n: 5 }, times: 1 });
  });
});

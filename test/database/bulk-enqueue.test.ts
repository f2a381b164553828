/** Many tasks in one call: each is stored as asked for, however they are grouped on their way, or none is. */
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import pg from "pg";
import { describe, expect, test } from "vitest";
import { InvalidOptionsError } from "../../src/config/problems.ts";
import { Everbeat } from "../../src/everbeat.ts";
import type { EnqueueOptions } from "../../src/queue/enqueue-options.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { gate, unique, workingOn } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const { working, disposable } = workingOn(everbeat);
const plain = defineTask({ name: "plain", priority: 3, run: (_input: unknown) => null });

interface Stored {
  readonly id: string;
  readonly input: string;
  readonly metadata: string | null;
  readonly queue: string;
  readonly priority: number;
  readonly delayMs: number;
  readonly livesMs: number | null;
  readonly exclusive: string | null;
  readonly rate: string | null;
  readonly gated: boolean;
  /** What the row that waits says must be what the row of the task says. */
  readonly agrees: boolean;
}

/** As they are in the tables, in the order of these ids. */
async function stored(ids: readonly string[]): Promise<Stored[]> {
  const rows = await database.query<Stored>(
    `select t.id, t.input::text as input, t.metadata::text as metadata, t.queue, t.priority,
       round(extract(epoch from t.run_at - t.created_at) * 1000)::float8 as "delayMs",
       round(extract(epoch from t.expires_at - t.created_at) * 1000)::float8 as "livesMs",
       t.exclusive_key || ' ' || t.exclusive_limit as exclusive, t.rate_key || ' ' || t.rate_limit || ' ' || t.rate_per_ms as rate, r.gated,
       (t.name, t.queue, t.priority, t.run_at) = (r.name, r.queue, r.priority, r.run_at) and t.expires_at is not distinct from r.expires_at as agrees
     from unnest($1::uuid[]) with ordinality i (id, place)
     join everbeat.task t using (id) join everbeat.ready r on r.task_id = t.id order by i.place`,
    [ids],
  );
  return rows;
}

const countTasks = async () =>
  (await database.query<{ n: number }>("select count(*)::int as n from everbeat.task"))[0]?.n;

describe("inputs", () => {
  const NASTY = [
    "tab\t newline\n return\r backslash \\ quote \" apostrophe ' zero \u0000 bell \u0007 delete \u007f",
    "\\.",
    "\\N",
    "{},[]:",
    '","ids":"{',
    "lone \ud800 and \udfff, a pair 🫀, a line separator \u2028, an é and a 漢",
    "",
  ];

  test("come back to the letter, whatever is in them", async () => {
    const inputs = [...NASTY, ...NASTY.map((text) => ({ [text]: [text, { deep: [text] }] })), null, 0, -0.5, 1e300, []];
    const ids = await everbeat.enqueueMany(plain, inputs, { options: { metadata: NASTY } });
    const rows = await stored(ids);
    expect(rows.map((row) => row.input)).toEqual(inputs.map((input) => JSON.stringify(input)));
    expect(new Set(rows.map((row) => row.metadata))).toEqual(new Set([JSON.stringify(NASTY)]));
  });

  test("any JSON there is", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.jsonValue(), { minLength: 1, maxLength: 30 }), async (inputs) => {
        const rows = await stored(await everbeat.enqueueMany(plain, inputs));
        expect(rows.map((row) => row.input)).toEqual(inputs.map((input) => JSON.stringify(input)));
      }),
      { numRuns: 50 },
    );
  }, 60_000);

  test("may be long, all of them, and so may what goes with them", async () => {
    const inputs = Array.from({ length: 20 }, (_, n) => `${n} ${"x".repeat(1_000_000)}`);
    const rows = await stored(await everbeat.enqueueMany(plain, inputs, { options: (metadata) => ({ metadata }) }));
    expect(rows.map((row) => row.input === row.metadata)).toEqual(inputs.map(() => true));
    expect(rows.map((row) => row.input.length)).toEqual(inputs.map((input) => input.length + 2));
  }, 60_000);

  test("that are wrong are all named before anything is written", async () => {
    const before = await countTasks();
    const inputs = Array.from({ length: 1_500 }, (_, n) => (n % 1_000 === 7 ? { n, at: Number.NaN } : { n }));
    const error = await everbeat.enqueueMany(plain, inputs).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(InvalidOptionsError);
    expect((error as InvalidOptionsError).problems).toEqual([
      "[7].input: it is not JSON: NaN at at",
      "[1007].input: it is not JSON: NaN at at",
    ]);
    expect(await countTasks()).toBe(before);
  });
});

describe("options", () => {
  test("that are the same for all are checked once, and named once", async () => {
    const call = everbeat.enqueueMany(plain, [1, 2, 3], { options: { priority: 1_000 } });
    await expect(call).rejects.toMatchObject({ problems: [expect.stringMatching(/^options\.priority: /)] });
  });

  test("of each input are named with its place", async () => {
    const call = everbeat.enqueueMany(plain, [1, 2, 1_000], { options: (input) => ({ priority: input as number }) });
    await expect(call).rejects.toMatchObject({ problems: [expect.stringMatching(/^\[2\]\.options\.priority: /)] });
  });

  test("of each input are stored with it, however many kinds there are", async () => {
    const options = fc.record(
      {
        queue: fc.constantFrom("one", "two", "three"),
        priority: fc.integer({ min: -2, max: 2 }),
        delay: fc.constantFrom(0, 1_500, 60_000),
        expiresIn: fc.constantFrom("1h", "2h"),
        exclusiveKey: fc.constantFrom("a", "tab\t'\"\\"),
        rateLimit: fc.constantFrom({ key: 'r"\n', limit: 5, per: 1_000 }),
        metadata: fc.constantFrom(null, { by: "me" }),
      },
      { requiredKeys: [] },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(options, { minLength: 1, maxLength: 60 }), async (list) => {
        const inputs = list.map((_, n) => n);
        const rows = await stored(
          await everbeat.enqueueMany(plain, inputs, { options: (n) => list[n as number] as EnqueueOptions }),
        );
        expect(rows.map(({ id, ...row }) => row)).toEqual(
          list.map((asked, n) => ({
            input: String(n),
            metadata: asked.metadata === undefined ? null : JSON.stringify(asked.metadata),
            queue: asked.queue ?? "default",
            priority: asked.priority ?? 3,
            delayMs: asked.delay ?? 0,
            livesMs: asked.expiresIn === undefined ? null : Number.parseInt(asked.expiresIn, 10) * 3_600_000,
            exclusive: asked.exclusiveKey === undefined ? null : `${asked.exclusiveKey} 1`,
            rate: asked.rateLimit === undefined ? null : 'r"\n 5 1000',
            gated: asked.exclusiveKey !== undefined || asked.rateLimit !== undefined,
            agrees: true,
          })),
        );
      }),
      { numRuns: 50 },
    );
  }, 60_000);

  test("one that would expire before it starts refuses them all", async () => {
    const before = await countTasks();
    const runAt = new Date(Date.now() + 7_200_000);
    const call = everbeat.enqueueMany(plain, [1, 2], {
      options: (n) => (n === 2 ? { runAt, expiresIn: "1h" } : { runAt }),
    });
    await expect(call).rejects.toThrow(/would expire before it may start/);
    expect(await countTasks()).toBe(before);
  });

  test("tasks of one exclusive key are claimed one at a time", async () => {
    const queue = unique("queue");
    const ids = await everbeat.enqueueMany(plain, [1, 2, 3], { options: { queue, exclusiveKey: unique("key") } });
    const claimed = await handClaimer(everbeat.database, ["plain"]).claim({ queues: [queue], room: [null] });
    expect(claimed.map((task) => task.taskId)).toEqual([ids[0]]);
  });
});

describe("the same ids again", () => {
  const withIds = (ids: readonly string[]) => ({ options: (_: unknown, index: number) => ({ id: ids[index] ?? "" }) });

  test("are the same tasks: all of them, half of them, or the same one twice in a call", async () => {
    const ids = Array.from({ length: 1_200 }, () => randomUUID());
    const inputs = ids.map((_, n) => n);
    expect(await everbeat.enqueueMany(plain, inputs.slice(0, 600), withIds(ids))).toEqual(ids.slice(0, 600));
    for (let round = 0; round < 2; round++) {
      expect(await everbeat.enqueueMany(plain, inputs, withIds(ids))).toEqual(ids);
      expect((await stored(ids)).map((row) => row.input)).toEqual(inputs.map(String));
    }
    const twice = randomUUID();
    expect(await everbeat.enqueueMany(plain, [1, 2], { options: { id: twice } })).toEqual([twice, twice]);
    expect((await stored([twice])).map((row) => row.input)).toEqual(["1"]);
  });

  test("of tasks that have ended bring them back neither", async () => {
    const queue = unique("queue");
    const ids = [randomUUID(), randomUUID()];
    const again = () =>
      everbeat.enqueueMany(plain, [1, 2], { options: (_, n) => ({ id: ids[n] ?? "", queue, priority: n }) });
    await again();
    const claimer = handClaimer(everbeat.database, ["plain"]);
    for (const task of await claimer.claim({ queues: [queue], room: [null] })) await claimer.complete(task);
    await again();
    expect(await stored(ids)).toEqual([]);
  });
});

describe("lanes", () => {
  test("that several callers use for the first time at once are all known, and their tasks found", async () => {
    const others = await Promise.all([0, 1].map(() => Everbeat.open({ database: database.url, log: "silent" })));
    try {
      const name = unique("many-lanes");
      const task = defineTask({ name, run: (_input: number) => null });
      const numbers = Array.from({ length: 400 }, (_, n) => n);
      const call = (by: Everbeat, order: readonly number[]) =>
        by.enqueueMany(task, order, { options: (n) => ({ queue: `${name}-${n % 80}`, priority: n % 5 }) });
      const lists = await Promise.all(
        [everbeat, ...others].flatMap((by) => [call(by, numbers), call(by, numbers.toReversed())]),
      );
      const claimed = await handClaimer(everbeat.database, [name]).claim({ run: 5_000 });
      expect(new Set(claimed.map((claim) => claim.taskId))).toEqual(new Set(lists.flat()));
      const queues = await everbeat.queues.list();
      expect(queues.filter((queue) => queue.name.startsWith(`${name}-`))).toHaveLength(80);
    } finally {
      for (const other of others) await other.close();
    }
  }, 60_000);

  test("that are new in a transaction that is still open are waited for by nobody", async () => {
    const queue = unique("still-open");
    const client = new pg.Client(database.url);
    await client.connect();
    try {
      await client.query("begin");
      await everbeat.enqueueMany(plain, [1, 2], { tx: client, options: { queue } });
      const ids = await everbeat.enqueueMany(plain, [3], { options: { queue } });
      const claimed = await handClaimer(everbeat.database, ["plain"]).claim({ queues: [queue], room: [null] });
      expect(claimed.map((task) => task.taskId)).toEqual(ids);
      await client.query("rollback");
    } finally {
      await client.end();
    }
  });
});

test("a worker that is asleep is woken, whatever queue is among those of a call", async () => {
  const done = gate();
  const names = [unique("queue"), unique("queue"), unique("queue")];
  let count = 0;
  const task = defineTask({
    name: unique("woken"),
    run: (_input: number) => {
      if (++count === 300) done.open();
    },
  });
  // It looks by itself once a minute, so that only a bell can have woken it in time.
  await using _ = await disposable(working([task], { queues: names.slice(1, 2), pollInterval: "1m", concurrency: 50 }));
  const isAsleep = async () =>
    (await database.query("select from everbeat.bell where queue = $1 and armed", [names[1]])).length === 1;
  await eventually(isAsleep, { within: 20_000, what: "the worker to fall asleep" });
  await everbeat.enqueueMany(
    task,
    Array.from({ length: 900 }, (_, n) => n),
    { options: (n) => ({ queue: names[n % 3] }) },
  );
  await done.opened;
  expect(count).toBe(300);
}, 50_000);

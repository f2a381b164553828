import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { InvalidOptionsError } from "../../src/config/problems.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { DuplicateTaskError } from "../../src/task/errors.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const plain = defineTask({ name: "plain", run: (_input: unknown) => null });
const strict = defineTask({
  name: "strict",
  input: z.object({ url: z.url(), n: z.coerce.number().int() }),
  run: () => null,
});
const count = async () =>
  Number((await database.query<{ n: string }>("select count(*) as n from everbeat.task"))[0]?.n);

/** Enqueues in a queue of the test's own, so that what others enqueue does not matter. */
const inQueue = () => ({ queue: `q-${randomUUID()}` });

describe("enqueue", () => {
  test("stores the input exactly as it was given, whatever is in it", async () => {
    const input = {
      text: 'quote " backslash \\ zero \u0000 lone \ud800 emoji 🫀',
      big: 2 ** 53,
      tiny: 5e-324,
      nested: [[], {}, null],
    };
    const id = await everbeat.enqueue(plain, input);
    expect((await everbeat.tasks.show(id)).input).toEqual(JSON.parse(JSON.stringify(input)));
  });

  test("stores what was given, not what the schema makes of it", async () => {
    const id = await everbeat.enqueue(strict, { url: "https://example.com", n: "7" });
    expect((await everbeat.tasks.show(id)).input).toEqual({ url: "https://example.com", n: "7" });
  });

  test("with the same id twice is one task", async () => {
    const id = randomUUID();
    const ids = await Promise.all([
      everbeat.enqueue(plain, 1, { id }),
      everbeat.enqueue(plain, 1, { id }),
      everbeat.enqueue(plain, 2, { id }),
    ]);
    expect(new Set(ids)).toEqual(new Set([id]));
    expect(await database.query("select from everbeat.task where id = $1", [id])).toHaveLength(1);
  });

  test("lists every problem of a call together and writes nothing", async () => {
    const before = await count();
    const call = everbeat.enqueue(strict, { url: "nonsense", n: "x" }, {
      priorty: 1,
      priority: 1_000,
      delay: "soon",
      runAt: "never",
      uniqueKey: "",
    } as never);
    await expect(call).rejects.toBeInstanceOf(InvalidOptionsError);
    const { problems } = (await call.catch((error: unknown) => error)) as InvalidOptionsError;
    for (const part of [
      "input: url",
      "input: n",
      'did you mean "priority"',
      "from -100 to 100",
      "options.delay",
      "options.runAt",
      "options.uniqueKey",
    ]) {
      expect(problems.join("\n")).toContain(part);
    }
    expect(await count()).toBe(before);
  });

  test.each([
    ["not JSON", () => ({ f: () => 1 }), /not JSON: a function at f/],
    ["too large", () => "x".repeat(1_048_577), /1048579 bytes as JSON and at most 1048576 are allowed/],
  ])("refuses an input that is %s", async (_what, input, message) => {
    await expect(everbeat.enqueue(plain, input())).rejects.toThrow(message);
  });

  test.each([
    [{ delay: "1s", runAt: new Date() }, /delay and runAt exclude each other/],
    [{ onDuplicate: "keep" }, /onDuplicate: needs uniqueKey/],
    [{ debounce: "1s" }, /debounce: needs uniqueKey/],
    [{ exclusiveLimit: 2 }, /exclusiveLimit: needs exclusiveKey/],
    [{ rateLimit: { key: "k" } }, /rateLimit: needs key, limit and per/],
    [{ metadata: { b: 1n } }, /metadata: it is not JSON: a bigint at b/],
    [{ tx: {} }, /tx: must have a function query/],
    [{ id: "7" }, /id: must be a UUID/],
  ])("refuses options that make no sense (%#)", async (options, message) => {
    await expect(everbeat.enqueue(plain, 1, options as never)).rejects.toThrow(message);
  });

  test("of something that is not a task says so", async () => {
    await expect(everbeat.enqueue({ name: "x" } as never, 1 as never)).rejects.toThrow(/made by defineTask/);
    await expect(everbeat.enqueue("u" as never, 1 as never)).rejects.toThrow(
      /must be a task made by defineTask, not "u"/,
    );
    await expect(everbeat.recovery.failStaleRunning({ ids: ["x"] })).rejects.toThrow(/ids\[0\]: must be a task's id/);
    await expect(everbeat.recovery.postMortems({ cause: "oom" as never })).rejects.toThrow(
      /cause: must be .*"out-of-memory"/,
    );
  });

  test("keeps metadata with the task", async () => {
    const id = await everbeat.enqueue(plain, 1, { metadata: { by: "me" } });
    expect((await everbeat.tasks.show(id)).metadata).toEqual({ by: "me" });
  });
});

test("a task that takes nothing can be enqueued with nothing, and options may be undefined", async () => {
  const nothing = defineTask({ name: "nothing", run: () => null });
  const id = await everbeat.enqueue(nothing);
  expect((await everbeat.tasks.show(id)).input).toBeNull();
  await everbeat.enqueue(nothing, undefined, { uniqueKey: undefined, delay: undefined });
});

describe("enqueueMany", () => {
  test("refuses options that are not where it looks for them", async () => {
    await expect(everbeat.enqueueMany(plain, [1], { delay: "1h" } as never)).rejects.toThrow(
      /delay: there is no such option/,
    );
  });

  test("is all or nothing, and names the input that is wrong", async () => {
    const before = await count();
    const call = everbeat.enqueueMany(strict, [
      { url: "https://a.example", n: 1 },
      { url: "b", n: 1 },
    ]);
    await expect(call).rejects.toThrow(/\[1\]\.input: url/);
    expect(await count()).toBe(before);
  });

  test("keeps the order of its inputs, within one batch and across batches", async () => {
    const { queue } = inQueue();
    const ids = await everbeat.enqueueMany(
      plain,
      Array.from({ length: 10_500 }, (_, n) => n),
      { options: { queue } },
    );
    const claimed = await handClaimer(everbeat.database, ["plain"]).claim({
      queues: [queue],
      room: [null],
      run: 10_500,
    });
    expect(claimed.map((task) => task.taskId)).toEqual(ids);
  });

  test("takes options by input", async () => {
    const [id] = await everbeat.enqueueMany(plain, [5], { options: (input) => ({ priority: input as number }) });
    expect((await everbeat.tasks.show(id as string)).priority).toBe(5);
  });
});

describe("in the caller's own transaction", () => {
  const inTransaction = async (end: "commit" | "rollback", work: (client: pg.Client) => Promise<void>) => {
    const client = new pg.Client(database.url);
    await client.connect();
    try {
      await client.query("begin");
      await work(client);
      await client.query(end);
    } finally {
      await client.end();
    }
  };

  test("a task exists if and only if it commits", async () => {
    const [kept, dropped] = [randomUUID(), randomUUID()];
    await inTransaction("commit", async (tx) => void (await everbeat.enqueue(plain, 1, { id: kept, tx })));
    await inTransaction("rollback", async (tx) => void (await everbeat.enqueue(plain, 1, { id: dropped, tx })));
    expect((await everbeat.tasks.show(kept)).state).toBe("pending");
    await expect(everbeat.tasks.show(dropped)).rejects.toThrow(/There is no task/);
  });

  test("many tasks too, and a refused one leaves the transaction usable", async () => {
    const options = { uniqueKey: "in-tx", ...inQueue() };
    await everbeat.enqueue(plain, 1, options);
    let ids: string[] = [];
    await inTransaction("commit", async (tx) => {
      await expect(everbeat.enqueue(plain, 2, { ...options, onDuplicate: "refuse", tx })).rejects.toBeInstanceOf(
        DuplicateTaskError,
      );
      ids = await everbeat.enqueueMany(plain, [1, 2, 3], { tx });
    });
    expect(await database.query("select from everbeat.ready where task_id = any ($1::uuid[])", [ids])).toHaveLength(3);
  });

  test("any object with query(text, values) will do", async () => {
    const seen: string[] = [];
    const id = await everbeat.enqueue(plain, 1, {
      tx: {
        query: async (text, values) => {
          seen.push(text);
          return database.query(text, values);
        },
      },
    });
    expect(seen).toHaveLength(1);
    expect((await everbeat.tasks.show(id)).state).toBe("pending");
  });
});

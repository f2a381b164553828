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
      Array.from({ length: 2_500 }, (_, n) => n),
      { options: { queue } },
    );
    const claimed = await handClaimer(everbeat.database, ["plain"]).claim({
      queues: [queue],
      room: [null],
      run: 2_500,
    });
    expect(claimed.map((task) => task.taskId)).toEqual(ids);
  });

  test("takes options by input", async () => {
    const [id] = await everbeat.enqueueMany(plain, [5], { options: (input) => ({ priority: input as number }) });
    expect((await everbeat.tasks.show(id as string)).priority).toBe(5);
  });
});

describe("a unique key", () => {
  const unique = (key: string) => ({ uniqueKey: key, ...inQueue() });

  test("keeps the task that is there and returns its id", async () => {
    const options = unique("keep");
    const first = await everbeat.enqueue(plain, 1, options);
    expect(await everbeat.enqueue(plain, 2, options)).toBe(first);
    expect((await everbeat.tasks.show(first)).input).toBe(1);
  });

  test("is kept among concurrent callers, and within one batch", async () => {
    const options = unique("race");
    const ids = await Promise.all(Array.from({ length: 40 }, (_, n) => everbeat.enqueue(plain, n, options)));
    expect(new Set(ids).size).toBe(1);
    const many = await everbeat.enqueueMany(plain, [1, 2, 3], { options: unique("batch") });
    expect(new Set(many).size).toBe(1);
  });

  test("belongs to a task name: another task may have the same", async () => {
    const other = defineTask({ name: "other", run: (_input: unknown) => null });
    const options = unique("per-name");
    expect(await everbeat.enqueue(other, 1, options)).not.toBe(await everbeat.enqueue(plain, 1, options));
  });

  test("replaces a pending task's input, time and place, under the same id", async () => {
    const options = unique("replace");
    const first = await everbeat.enqueue(plain, "old", { ...options, delay: "1h" });
    const second = await everbeat.enqueue(plain, "new \u0000", { ...options, onDuplicate: "replace", priority: -3 });
    expect(second).toBe(first);
    expect(await everbeat.tasks.show(first)).toMatchObject({ input: "new \u0000", priority: -3, state: "pending" });
    expect(
      (await handClaimer(everbeat.database, ["plain"]).claim({ queues: [options.queue], room: [null] })).map(
        (task) => task.taskId,
      ),
    ).toEqual([first]);
  });

  test("lets a running task go on and enqueues the replacement beside it", async () => {
    const options = unique("replace-running");
    const first = await everbeat.enqueue(plain, "old", options);
    await handClaimer(everbeat.database, ["plain"]).claim({ queues: [options.queue], room: [null] });
    const second = await everbeat.enqueue(plain, "new", { ...options, onDuplicate: "replace" });
    expect(second).not.toBe(first);
    expect((await everbeat.tasks.show(first)).state).toBe("running");
    expect(await everbeat.enqueue(plain, "third", options)).toBe(second);
  });

  test("refuses, and says who holds it", async () => {
    const options = unique("refuse");
    const first = await everbeat.enqueue(plain, 1, options);
    const refused = everbeat.enqueue(plain, 2, { ...options, onDuplicate: "refuse" });
    await expect(refused).rejects.toBeInstanceOf(DuplicateTaskError);
    await expect(refused).rejects.toMatchObject({ holder: first, uniqueKey: "refuse" });
    const before = await count();
    const many = everbeat.enqueueMany(plain, [1, 2], {
      options: (n) => (n === 1 ? {} : { ...options, onDuplicate: "refuse" }),
    });
    await expect(many).rejects.toBeInstanceOf(DuplicateTaskError);
    expect(await count()).toBe(before);
  });

  test("does not fail callers who share a batch with one that is refused", async () => {
    const options = unique("shared-batch");
    await everbeat.enqueue(plain, 1, options);
    const [kept, refused] = await Promise.allSettled([
      everbeat.enqueue(plain, 1),
      everbeat.enqueue(plain, 1, { ...options, onDuplicate: "refuse" }),
    ]);
    expect(kept.status).toBe("fulfilled");
    expect(refused.status).toBe("rejected");
  });

  test("counts only in the states it is meant to", async () => {
    const options = unique("states");
    const claimer = handClaimer(everbeat.database, ["plain"]);
    const first = await everbeat.enqueue(plain, 1, options);
    const [task] = await claimer.claim({ queues: [options.queue], room: [null] });
    expect(await everbeat.enqueue(plain, 1, options)).toBe(first);
    const second = await everbeat.enqueue(plain, 1, { ...options, uniqueOver: ["pending"] });
    expect(second).not.toBe(first);
    await claimer.complete(task as never);
    expect(await everbeat.enqueue(plain, 1, options)).toBe(second);
    await everbeat.tasks.cancel(second);
    expect(await everbeat.enqueue(plain, 1, { ...options, uniqueOver: ["pending", "cancelled"] })).toBe(second);
    expect(await everbeat.enqueue(plain, 1, options)).not.toBe(second);
  });

  test("counts only for as long as it is meant to", async () => {
    const options = { ...unique("window"), uniqueOver: ["pending", "completed"], uniqueFor: "1h" } as const;
    const first = await everbeat.enqueue(plain, 1, { ...options, uniqueOver: [...options.uniqueOver] });
    const again = () => everbeat.enqueue(plain, 1, { ...options, uniqueOver: [...options.uniqueOver] });
    expect(await again()).toBe(first);
    await database.query("update everbeat.task set created_at = created_at - interval '59 minutes' where id = $1", [
      first,
    ]);
    expect(await again()).toBe(first);
    await database.query("update everbeat.task set created_at = created_at - interval '2 minutes' where id = $1", [
      first,
    ]);
    expect(await again()).not.toBe(first);
  });

  test("debounces: the last call's input runs, once nobody has called for the time", async () => {
    const options = { ...unique("debounce"), debounce: "1h" } as const;
    const first = await everbeat.enqueue(plain, "a", options);
    expect(await everbeat.enqueue(plain, "b", options)).toBe(first);
    const task = await everbeat.tasks.show(first);
    expect(task.input).toBe("b");
    const [row] = await database.query<{ wait: number }>(
      "select extract(epoch from run_at - now())::float8 as wait from everbeat.ready where task_id = $1",
      [first],
    );
    expect(row?.wait).toBeGreaterThan(3_590);
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

describe("the SQL function enqueue()", () => {
  const call = async (name: string, input: unknown, options: unknown) => {
    const [row] = await database.query<{ id: string }>("select everbeat.enqueue($1, $2::json, $3::jsonb) as id", [
      name,
      JSON.stringify(input),
      JSON.stringify(options),
    ]);
    return row?.id as string;
  };

  test("enqueues like the client does, with every option", async () => {
    const id = randomUUID();
    const { queue } = inQueue();
    const given = {
      id,
      queue,
      priority: 4,
      delay: "5m",
      expiresIn: "1h",
      uniqueKey: "sql",
      uniqueFor: 60_000,
      exclusiveKey: "x",
      exclusiveLimit: 2,
      rateLimit: { key: "r", limit: 5, per: "1s" },
      metadata: { a: 1 },
    };
    expect(await call("from-sql", { hello: "world" }, given)).toBe(id);
    const fromClient = await everbeat.enqueue(
      defineTask({ name: "from-client", run: (_input: unknown) => null }),
      { hello: "world" },
      { ...given, id: randomUUID() } as never,
    );
    const columns =
      "queue, priority, round(extract(epoch from run_at - created_at)) as delay, round(extract(epoch from expires_at - created_at)) as expiry, unique_key, exclusive_key, exclusive_limit, rate_key, rate_limit, rate_per_ms, input::text::jsonb, metadata::text::jsonb";
    const [sql] = await database.query(`select ${columns} from everbeat.task where id = $1`, [id]);
    const [client] = await database.query(`select ${columns} from everbeat.task where id = $1`, [fromClient]);
    expect(sql).toEqual(client);
  });

  test("has the same defaults as the task's definition, once a worker has brought it", async () => {
    await database.query(
      `insert into everbeat.definition (name, settings) values ('defined', '{"queue": "mail", "priority": 7}')`,
    );
    expect(await everbeat.tasks.show(await call("defined", 1, {}))).toMatchObject({ queue: "mail", priority: 7 });
    expect(await everbeat.tasks.show(await call("undefined", 1, {}))).toMatchObject({ queue: "default", priority: 0 });
  });

  test("knows the same options as the client", async () => {
    const { ENQUEUE_SHAPE } = await import("../../src/queue/enqueue-options.ts");
    const message = await call("x", 1, { "no-such-option": 1 }).catch((error: Error) => error.message);
    const known = /use one of (.*?)(;|$)/.exec(message as string)?.[1]?.split(", ");
    expect(new Set(known)).toEqual(new Set(Object.keys(ENQUEUE_SHAPE).filter((key) => key !== "tx")));
  });

  test("refuses what the client refuses, all problems together", async () => {
    await expect(
      call("no spaces", 1, {
        priority: 1_000,
        queue: "a b",
        delay: "1s",
        runAt: "2030-01-01",
        onDuplicate: "maybe",
        debounce: 1,
        exclusiveLimit: 1,
        rateLimit: {},
      }),
    ).rejects.toMatchObject({
      code: "EB003",
      message: expect.stringMatching(
        /name .*queue .*priority .*exclude each other.*onDuplicate .*need a uniqueKey.*needs an exclusiveKey.*rateLimit/s,
      ),
    });
    await expect(call("large", "x".repeat(1_048_577), {})).rejects.toThrow(/at most 1048576/);
    const taken = await call("dup", 1, { uniqueKey: "k" });
    expect(await call("dup", 1, { uniqueKey: "k" })).toBe(taken);
    await expect(call("dup", 1, { uniqueKey: "k", onDuplicate: "refuse" })).rejects.toMatchObject({ code: "EB002" });
  });

  test.each([
    { rateLimit: { key: "r", limit: 0, per: "1s" } },
    { rateLimit: { key: "r", limit: 5, per: 0 } },
    { exclusiveKey: "x", exclusiveLimit: 0 },
    { uniqueKey: "u", uniqueOver: ["lost"] },
  ])("refuses a limit or a state that would stand in the way of others (%#)", async (options) => {
    const before = await count();
    await expect(call("limits", 1, options)).rejects.toMatchObject({ code: "EB003" });
    expect(await count()).toBe(before);
  });

  test("works in a trigger", async () => {
    await database.query("create table orders (id int)");
    await database.query(
      `create function on_order() returns trigger language plpgsql as $$ begin perform everbeat.enqueue('order-placed', to_json(new)); return new; end $$`,
    );
    await database.query("create trigger placed after insert on orders for each row execute function on_order()");
    await database.query("insert into orders values (1), (2)");
    expect((await everbeat.tasks.list({ name: "order-placed" })).tasks).toHaveLength(2);
  });
});

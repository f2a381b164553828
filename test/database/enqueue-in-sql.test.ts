/** The SQL function enqueue(): as good as the client, for those who have no client. */
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isInstant } from "../../src/config/checks.ts";
import { durationMs } from "../../src/config/duration.ts";
import { Problems } from "../../src/config/problems.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { written } from "../support/durations.ts";

const { everbeat, database } = await openTestEverbeat();
const elsewhere = await openTestEverbeat({}, undefined, {
  kind: "template template0 encoding 'UTF8' locale_provider icu icu_locale 'en'",
});
const count = async () =>
  Number((await database.query<{ n: string }>("select count(*) as n from everbeat.task"))[0]?.n);

/** Enqueues in a queue of the test's own, so that what others enqueue does not matter. */
const inQueue = () => ({ queue: `q-${randomUUID()}` });

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
      `insert into everbeat.definition (name, queue, priority, settings) values ('defined', 'mail', 7, '{}')`,
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

  test("lists every problem of a call together and writes nothing", async () => {
    const before = await count();
    await expect(call("no spaces", "x".repeat(1_048_577), { priority: 1_000, queue: "a b" })).rejects.toMatchObject({
      code: "EB003",
      message: expect.stringMatching(/queue: .*priority: .*name: .*input: .*at most 1048576/s),
    });
    await expect(call("x", 1, [])).rejects.toThrow(/options: must be an object, not \[\]/);
    expect(await count()).toBe(before);
  });

  test("refuses a duplicate where it is told to", async () => {
    const taken = await call("dup", 1, { uniqueKey: "k" });
    expect(await call("dup", 1, { uniqueKey: "k" })).toBe(taken);
    await expect(call("dup", 1, { uniqueKey: "k", onDuplicate: "refuse" })).rejects.toMatchObject({ code: "EB002" });
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

describe.each([
  ["this database", database],
  ["one whose locale knows other digits and spaces", elsewhere.database],
] as const)("the SQL function enqueue() in %s", (_, here) => {
  const numbers = fc.oneof(
    fc.integer(),
    fc.double({ noDefaultInfinity: true, noNaN: true }),
    fc.constantFrom(120.375, 0.5),
  );

  test("takes the same texts and numbers for durations as the client, and means the same by them", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(written, numbers), { minLength: 100, maxLength: 100 }), async (values) => {
        const inSql = await here.query<{ value: unknown; ms: number | null }>(
          "select v as value, everbeat.duration_ms(v)::float8 as ms from jsonb_array_elements($1::jsonb) v",
          [JSON.stringify(values)],
        );
        const inClient = values.map((value) => ({ value, ms: durationMs(value) ?? null }));
        expect(inSql).toEqual(JSON.parse(JSON.stringify(inClient)));
      }),
      { numRuns: 20 },
    );
  });

  test.each(["2030-01-31T09:00:00Z", "2030-01-31", "2٠30-01-31T09:00:00Z", "2030-02-30", "2030-01-31 "])(
    "takes %s for a time where the client does",
    async (text) => {
      const [row] = await here.query<{ at: Date | null }>("select everbeat.instant(to_jsonb($1::text)) as at", [text]);
      expect(row?.at?.toISOString()).toBe(isInstant(text, "", new Problems()));
    },
  );
});

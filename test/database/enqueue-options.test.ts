/** The options of a task: the client and the SQL function take the same, refuse the same, and store the same. */
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { durationMs } from "../../src/config/duration.ts";
import { InvalidOptionsError } from "../../src/config/problems.ts";
import { databaseError } from "../../src/database/database-error.ts";
import { ENQUEUE_SHAPE } from "../../src/queue/enqueue-options.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";

vi.setConfig({ testTimeout: 180_000 });

const { everbeat, database } = await openTestEverbeat();
const fromClient = defineTask({ name: "from-client", run: (_input: unknown) => null });
const YEAR_MS = 31_536_000_000;

/** The task as it is stored, or the problems that it was refused for; whatever else goes wrong is thrown. */
type Answer = { readonly stored: object } | { readonly problems: readonly string[] };

async function byClient(options: object): Promise<Answer> {
  try {
    return { stored: await stored(await everbeat.enqueue(fromClient, {}, options)) };
  } catch (error) {
    if (error instanceof InvalidOptionsError) return { problems: error.problems };
    throw error;
  }
}

async function bySql(options: object): Promise<Answer> {
  const call = "select everbeat.enqueue('from-sql', '{}', $1::jsonb) as id";
  try {
    const [row] = await database.query<{ id: string }>(call, [JSON.stringify(options)]);
    return { stored: await stored(row?.id ?? "") };
  } catch (error) {
    const refusal = databaseError(error);
    if (refusal?.code === "EB003") return { problems: JSON.parse(refusal.detail ?? "[]") as string[] };
    throw error;
  }
}

async function stored(id: string): Promise<object> {
  // What was given as a while is stored as a while after now; what was given as a moment is the same for both.
  const time = (column: string) =>
    `case when ${column} > now() + interval '50 years' then ${column}::text else round(extract(epoch from ${column} - created_at) * 1000)::text end`;
  const [row] = await database.query<{ task: object }>(
    `select to_jsonb(t) - array['id', 'name', 'created_at', 'input']
       || jsonb_build_object('run_at', ${time("run_at")}, 'expires_at', ${time("expires_at")}) as task
     from everbeat.task t where id = $1`,
    [id],
  );
  if (!row) throw new Error(`task ${id} is not there`);
  return row.task;
}

const both = async (options: object) => [await byClient(options), await bySql(options)] as const;

describe.each<[option: string, good: readonly unknown[], bad: readonly unknown[], besides?: object]>([
  ["id", [], ["7", 7, `${randomUUID()}0`, null]],
  ["queue", ["mail", "a:b/c.d_e-f", "0"], ["", "a b", "-a", "x".repeat(129), 7, null, ["mail"]]],
  ["priority", [-100, 0, 100], [-101, 101, 1.5, "5", null, true]],
  ["delay", [0, 1_500, 1.4, "250ms", "1.005s", " 5m ", "2 h", 10 * YEAR_MS], BAD_DURATIONS()],
  ["expiresIn", [0, "7d"], BAD_DURATIONS()],
  ["uniqueFor", [0, "1h"], BAD_DURATIONS(), { uniqueKey: "for" }],
  ["debounce", ["1h"], BAD_DURATIONS(), { uniqueKey: "debounced" }],
  ["runAt", ["2139-01-31T09:00:00Z", "2139-01-31T09:00+02:00", "2139-01-31", "9999-12-31"], BAD_INSTANTS()],
  ["expiresAt", ["2139-01-31T09:00:00.123Z"], BAD_INSTANTS()],
  ["uniqueKey", ["k", "🫀".repeat(512)], BAD_KEYS()],
  ["exclusiveKey", ["k", "ü".repeat(512)], BAD_KEYS()],
  ["exclusiveLimit", [1, 10_000], [0, -1, 10_001, 1.5, "2", null], { exclusiveKey: "limited" }],
  ["onDuplicate", ["keep", "replace", "refuse"], ["maybe", "", 1, null], { uniqueKey: "duplicate" }],
  ["uniqueOver", [["pending"], ["completed", "failed"]], [[], ["lost"], "pending", null, [1]], { uniqueKey: "over" }],
  ["rateLimit", [{ key: "r", limit: 1, per: "1s" }], BAD_RATES()],
  ["metadata", [null, 1, "text", { a: [1] }], []],
])("%s", (option, good, bad, besides = {}) => {
  test.each(good.map((value) => [value]))("may be %j", async (value) => {
    // A unique key of the case's own, so that no other task is in its way.
    const key = "uniqueKey" in besides ? { uniqueKey: `${option} ${JSON.stringify(value)}` } : {};
    const [client, sql] = await both({ ...besides, ...key, [option]: value });
    expect(client).toHaveProperty("stored");
    expect(sql).toEqual(client);
  });

  test.each(bad.map((value) => [value]))("may not be %j", async (value) => {
    for (const answer of await both({ ...besides, [option]: value })) {
      expect(answer).toEqual({ problems: expect.arrayContaining([expect.stringContaining(option)]) });
    }
  });
});

function BAD_DURATIONS(): unknown[] {
  return [-1, -0.4, "-5m", "5 minutes", "soon", "", "1h 30m", null, true, 10 * YEAR_MS + 1, "3651d", "9".repeat(40)];
}
function BAD_INSTANTS(): unknown[] {
  return [
    "tomorrow",
    "infinity",
    "2139",
    "2139-02-30",
    "2139-13-01",
    "2139-01-31T09:00:00",
    "2139-01-31 09:00Z",
    // In the years 999 and 10000 of UTC.
    "1000-01-01T00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    7,
    null,
  ];
}
function BAD_KEYS(): unknown[] {
  return ["", 7, null, "x".repeat(513), ["k"], true];
}
function BAD_RATES(): unknown[] {
  const rate = { key: "r", limit: 5, per: "1s" };
  const wrong = [
    { key: "" },
    { key: 5 },
    { limit: 0 },
    { limit: 1.5 },
    { limit: "5" },
    { per: 0 },
    { per: "366d" },
    { more: 1 },
  ];
  return [{}, "5/s", null, [], { key: "r", limit: 5 }, ...wrong.map((part) => ({ ...rate, ...part }))];
}

describe("a Date", () => {
  test.each(["runAt", "expiresAt"])("is taken for %s up to the year 9999", async (option) => {
    const at = new Date("9999-12-31T23:59:59.999Z");
    expect(await byClient({ [option]: at })).toEqual(await bySql({ [option]: at.toISOString() }));
  });

  test.each([
    ["beyond what the text of a moment can say", new Date(8.64e15)],
    ["of the year 10000", new Date("+010000-01-01T00:00:00Z")],
    ["of the year 999", new Date("0999-12-31T23:59:59Z")],
    ["before the year 1", new Date("-000001-01-01T00:00:00Z")],
    ["that is none", new Date(Number.NaN)],
  ])("%s is refused as the text of it is", async (_which, at) => {
    for (const option of ["runAt", "expiresAt"])
      expect(await byClient({ [option]: at })).toEqual({ problems: [expect.stringContaining(option)] });
    await expect(everbeat.tasks.list({ createdAfter: at })).rejects.toThrow(/createdAfter: must be/);
  });
});

describe("a duration is read alike", () => {
  const long = (digit: string, count: number) => digit.repeat(count);
  /** What each of them is in milliseconds; null: it is none. */
  const ODD: readonly (readonly [given: string | number, ms: number | null])[] = [
    ["1234567890123456789ms", null],
    ["123456789012345678901234567890.5s", null],
    [`0.${long("9", 15)}5ms`, 1],
    [`0.4${long("9", 18)}ms`, 0],
    [`0.4${long("9", 254)}ms`, 0],
    [`0.5${long("0", 254)}ms`, 1],
    ["2.49999999999999999ms", 2],
    ["1234567890.4999999999ms", 1_234_567_890],
    ["1234567890.49999999s", null],
    ["123456789.123499999999s", 123_456_789_123],
    ["123456789.1234999999999999s", 123_456_789_123],
    ["123456789.1235s", 123_456_789_124],
    ["0.000005787037037037036ms", 0],
    ["0.00000000578703703703703d", 0],
    ["0.00000000578703703703704d", 1],
    [`0.00048333333333333333${long("3", 30)}h`, 1_740],
    [`${long("0", 254)}5s`, 5_000],
    [`${long("0", 255)}5s`, null],
    [`1.${long("0", 255)}s`, 1_000],
    [`1.${long("0", 256)}s`, null],
    ["315360000000ms", 10 * YEAR_MS],
    ["315360000000.0000001ms", null],
    ["315360000000.000000000000000000001ms", null],
    ["315359999999.99999999ms", 10 * YEAR_MS],
    ["3650d", 10 * YEAR_MS],
    ["3650.0000000000000000001d", null],
    [`${long("9", 255)}d`, null],
    [0.49999999999999994, 0],
    [0.5, 1],
    [2.5, 3],
    [1e-7, 0],
    [5e-324, 0],
    [1e21, null],
    [Number.MAX_VALUE, null],
    [315_359_999_999.99994, 10 * YEAR_MS],
    [315_360_000_000.00006, null],
  ];

  test.each(ODD)("%s", async (given, ms) => {
    const [{ ms: inSql } = {}] = await database.query<{ ms: string | null }>(
      "select everbeat.duration_ms($1::jsonb) as ms",
      [JSON.stringify(given)],
    );
    expect({ client: durationMs(given) ?? null, sql: inSql && Number(inSql) }).toEqual({ client: ms, sql: ms });
    const [client, sql] = await both({ expiresIn: given });
    expect("stored" in client).toBe(ms !== null);
    expect("stored" in sql).toBe(ms !== null);
    if (ms !== null) expect(sql).toEqual(client);
  });

  test("whatever its digits are", async () => {
    const digits = fc.array(fc.nat({ max: 9 }), { minLength: 1, maxLength: 30 }).map((each) => each.join(""));
    const nines = fc.nat({ max: 30 }).map((count) => `4${long("9", count)}`);
    const written = fc
      .tuple(digits, fc.option(fc.oneof(digits, nines)), fc.constantFrom("ms", "s", "m", "h", "d"))
      .map(([whole, part, unit]) => `${whole.slice(0, 12)}${part === null ? "" : `.${part}`}${unit}`);
    await fc.assert(
      fc.asyncProperty(fc.array(written, { minLength: 50, maxLength: 50 }), async (given) => {
        const rows = await database.query<{ ms: string | null }>(
          "select everbeat.duration_ms(x) as ms from jsonb_array_elements($1::jsonb) with ordinality e (x, place) order by place",
          [JSON.stringify(given)],
        );
        expect(given.map(durationMs)).toEqual(rows.map(({ ms }) => (ms === null ? undefined : Number(ms))));
      }),
      { numRuns: 100 },
    );
  });
});

describe("nesting", () => {
  const deep = (levels: number) => JSON.parse(`${'[{"in":'.repeat(levels / 2)}1${"}]".repeat(levels / 2)}`) as unknown;
  const inputBySql = (input: unknown) =>
    database.query("select everbeat.enqueue('from-sql', $1::json)", [JSON.stringify(input)]);

  test("of 1,000 levels is taken, and brackets within text are none", async () => {
    const odd = {
      text: `${'"[{'.repeat(1_500)}\\`,
      more: [...Array.from({ length: 600 }, () => ["[", {}]), deep(996)],
    };
    for (const input of [deep(1_000), odd]) {
      await everbeat.enqueue(fromClient, input);
      await inputBySql(input);
    }
    const [client, sql] = await both({ metadata: deep(1_000) });
    expect(client).toHaveProperty("stored");
    expect(sql).toHaveProperty("stored");
  });

  test.each([1_002, 2_000])("of %d levels is refused, in the input and in the metadata", async (levels) => {
    const tooDeep = /input: .*nested more than 1,000 levels deep/;
    await expect(everbeat.enqueue(fromClient, deep(levels))).rejects.toThrow(tooDeep);
    await expect(inputBySql(deep(levels))).rejects.toMatchObject({
      code: "EB003",
      message: expect.stringMatching(tooDeep),
    });
    for (const answer of await both({ metadata: deep(levels) }))
      expect(answer).toEqual({ problems: [expect.stringMatching(/metadata: .*nested more than 1,000 levels deep/)] });
  });
});

describe("together", () => {
  test.each([
    [{ delay: "1s", runAt: "2139-01-01" }, /delay and runAt exclude each other/],
    [{ delay: "1s", debounce: "1s", uniqueKey: "k" }, /delay and debounce exclude each other/],
    [{ runAt: "2139-01-01", debounce: "1s", uniqueKey: "k" }, /runAt and debounce exclude each other/],
    [{ expiresIn: "1s", expiresAt: "2139-01-01" }, /expiresAt and expiresIn exclude each other/],
    [{ onDuplicate: "keep" }, /onDuplicate: needs uniqueKey/],
    [{ uniqueOver: ["failed"] }, /uniqueOver: needs uniqueKey/],
    [{ uniqueFor: 1 }, /uniqueFor: needs uniqueKey/],
    [{ debounce: 1 }, /debounce: needs uniqueKey/],
    [{ exclusiveLimit: 1 }, /exclusiveLimit: needs exclusiveKey/],
    [{ debounce: "1s", uniqueKey: "k", onDuplicate: "refuse" }, /must be "replace" with debounce/],
    [{ delay: "2h", expiresIn: "1h" }, /would expire before it may start/],
    [{ delay: "1h", expiresIn: "1h" }, /would expire before it may start/],
    [{ debounce: "2h", uniqueKey: "k", expiresIn: "1h" }, /would expire before it may start/],
    [{ runAt: "2139-01-02", expiresAt: "2139-01-01" }, /would expire before it may start/],
    [{ runAt: "2139-01-02", expiresIn: "1d" }, /would expire before it may start/],
    [{ delay: "1d", expiresAt: "2020-01-01" }, /would expire before it may start/],
    [{ "no-such-option": 1 }, /no-such-option/],
  ])("%j is refused", async (options, problem) => {
    const before = await database.query("select count(*) from everbeat.task");
    for (const answer of await both(options)) {
      expect(answer).toEqual({ problems: expect.arrayContaining([expect.stringMatching(problem)]) });
    }
    expect(await database.query("select count(*) from everbeat.task")).toEqual(before);
  });

  test("whatever options there are, both give the same answer", async () => {
    const values = fc.oneof(
      ...[
        fc.integer({ min: -200, max: 20_000 }),
        fc.double({ noNaN: true, min: -10, max: 2_000 }),
        fc.string({ unit: "grapheme" }),
      ],
      ...[fc.constantFrom("1s", "5m", "2h", "1d", "keep", "replace", "refuse", "2139-01-01", "2020-01-01T00:00:00Z")],
      ...[fc.constantFrom(null, true, {}, [], ["pending"], ["pending", "failed"], { key: "r", limit: 2, per: "1s" })],
    );
    const keys = Object.keys(ENQUEUE_SHAPE).filter((key) => key !== "tx" && key !== "id");
    const options = fc.dictionary(fc.constantFrom(...keys, "other"), values, { maxKeys: 4 });
    await fc.assert(
      fc.asyncProperty(options, async (given) => {
        // What cannot be sent to a database at all is refused by the one and cannot be said to the other.
        fc.pre(!/\\u0000/.test(JSON.stringify(given)));
        const unique =
          typeof given["uniqueKey"] === "string" && given["uniqueKey"] !== "" ? { uniqueKey: randomUUID() } : {};
        const [client, sql] = await both({ ...given, ...unique });
        expect("stored" in sql).toBe("stored" in client);
        if ("stored" in client && "stored" in sql && given["runAt"] === undefined && given["expiresAt"] === undefined)
          expect(sql.stored).toEqual(client.stored);
      }),
      { numRuns: 500 },
    );
  });
});

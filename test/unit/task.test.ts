import { type } from "arktype";
import fc from "fast-check";
import * as v from "valibot";
import { describe, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { defineBatchTask, defineTask, type InputOf, type OutputOf } from "../../src/task/define-task.ts";
import { toErrorRecord } from "../../src/task/error-record.ts";
import { isUuid, TaskIds } from "../../src/task/ids.ts";
import { parseInput } from "../../src/task/input.ts";
import { toJson } from "../../src/task/json.ts";
import { afterFailure, backoffMs, DEFAULT_RETRY, type RetryPolicy } from "../../src/task/retry.ts";

describe("a task definition", () => {
  test("has its defaults", () => {
    const { settings } = defineTask({ name: "plain", run: () => 1 });
    expect(settings).toMatchObject({
      queue: "default",
      priority: 0,
      onCrash: "fail",
      whenCutOff: "continue",
      retry: { attempts: 1 },
    });
  });

  test("whose work may be repeated by others does not go on when it is cut off, unless it says so", () => {
    expect(defineTask({ name: "a", onCrash: "retry", run: () => 1 }).settings.whenCutOff).toBe("abort");
    expect(defineTask({ name: "a", onCrash: "retry", whenCutOff: "continue", run: () => 1 }).settings.whenCutOff).toBe(
      "continue",
    );
  });

  test("lists everything that is wrong with it", () => {
    const define = () =>
      defineTask({
        name: "spaces are not allowed",
        priority: 1_000,
        retry: { attempts: 0, backof: "fixed", jitter: 2 },
        timeout: "soon",
        onCrash: "panic",
        input: {},
        run: "not a function",
      } as never);
    expect(define).toThrow(/name: must be/);
    expect(define).toThrow(/priority: must be a whole number from -100 to 100/);
    expect(define).toThrow(/retry\.attempts/);
    expect(define).toThrow(/retry\.backof: there is no such option; did you mean "backoff"\?/);
    expect(define).toThrow(/retry\.jitter/);
    expect(define).toThrow(/timeout: must be a duration/);
    expect(define).toThrow(/onCrash: must be "fail" or "retry" or "requeue"/);
    expect(define).toThrow(/input: must be a Standard Schema/);
    expect(define).toThrow(/run: must be a function/);
  });

  test("carries its types", () => {
    const task = defineTask({
      name: "typed",
      input: z.object({ n: z.coerce.number() }),
      run: ({ n }) => ({ twice: n * 2 }),
    });
    expectTypeOf<OutputOf<typeof task>>().toEqualTypeOf<{ twice: number }>();
    expectTypeOf<InputOf<typeof task>>().toEqualTypeOf<{ n: unknown }>();
    const batch = defineBatchTask({
      name: "batch",
      batchSize: 2,
      input: z.string(),
      run: async (items) => items.map((item) => item.input.length),
    });
    expectTypeOf<OutputOf<typeof batch>>().toEqualTypeOf<number>();
  });

  test.each([
    ["zod", z.object({ url: z.url(), times: z.number().max(3) })],
    ["valibot", v.object({ url: v.pipe(v.string(), v.url()), times: v.pipe(v.number(), v.maxValue(3)) })],
    ["arktype", type({ url: "string.url", times: "number <= 3" })],
  ])("checks its input by a schema of %s", async (_library, input) => {
    const task = defineTask({ name: "checked", input: input as z.ZodType<unknown>, run: () => 1 });
    expect(await parseInput(task, { url: "https://example.com", times: 2 })).toMatchObject({ ok: true });
    const refused = await parseInput(task, { url: "nonsense", times: 9 });
    expect(refused.ok).toBe(false);
    expect(refused.ok ? [] : refused.problems.join()).toMatch(/url.*times|times.*url/s);
  });

  test("waits for a schema that takes its time", async () => {
    const task = defineTask({
      name: "async",
      input: z.string().refine(async (text) => text === "right"),
      run: () => 1,
    });
    expect((await parseInput(task, "right")).ok).toBe(true);
    expect((await parseInput(task, "wrong")).ok).toBe(false);
  });
});

describe("errors not worth retrying", () => {
  const codes = defineTask({
    name: "codes",
    retry: { attempts: 3, unless: ["E_GONE", "TypeError"] },
    run: () => 1,
  }).settings;
  const judged = defineTask({
    name: "judged",
    retry: { unless: (error) => String(error).includes("never") },
    run: () => 1,
  }).settings;

  test("are told by code, by name, by a function, or by themselves", () => {
    expect(codes.isWorthRetrying(Object.assign(new Error("x"), { code: "E_GONE" }))).toBe(false);
    expect(codes.isWorthRetrying(new TypeError("x"))).toBe(false);
    expect(codes.isWorthRetrying(new Error("x"))).toBe(true);
    expect(judged.isWorthRetrying(new Error("never mind"))).toBe(false);
    expect(judged.isWorthRetrying(new Error("again"))).toBe(true);
    expect(judged.isWorthRetrying(Object.assign(new Error("again"), { retryable: false }))).toBe(false);
    expect(codes.isWorthRetrying(undefined)).toBe(true);
  });
});

describe("after a failure", () => {
  const policies = fc.record<RetryPolicy>({
    attempts: fc.integer({ min: 1, max: 50 }),
    backoff: fc.oneof(
      fc.constant("fixed" as const),
      fc.constant("exponential" as const),
      fc.array(fc.nat(100_000), { minLength: 1, maxLength: 5 }),
    ),
    delayMs: fc.nat(100_000),
    maxDelayMs: fc.nat(10_000_000),
    jitter: fc.double({ min: 0, max: 1, noNaN: true }),
  });
  const random = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });

  test("a task is tried exactly as often as its policy says", () => {
    fc.assert(
      fc.property(policies, random, (policy, chance) => {
        let failures = 0;
        let attempts = 0;
        for (;;) {
          attempts++;
          const next = afterFailure({ failures, isWorthRetrying: true, random: chance }, policy);
          failures = next.failures;
          if (next.kind === "fail") break;
        }
        expect(attempts).toBe(policy.attempts);
      }),
    );
  });

  test("a delay is never negative, and growth never exceeds its maximum", () => {
    fc.assert(
      fc.property(policies, random, fc.integer({ min: 1, max: 1_000 }), (policy, chance, failures) => {
        const delay = backoffMs(failures, policy, chance);
        expect(delay).toBeGreaterThanOrEqual(0);
        if (policy.backoff === "exponential") expect(delay).toBeLessThanOrEqual(policy.maxDelayMs);
      }),
    );
  });

  test("delays double, follow their list, or stay", () => {
    const delays = (policy: Partial<RetryPolicy>) =>
      [1, 2, 3, 4].map((failures) => backoffMs(failures, { ...DEFAULT_RETRY, jitter: 0, ...policy }, 0.5));
    expect(delays({ backoff: "exponential", delayMs: 100 })).toEqual([100, 200, 400, 800]);
    expect(delays({ backoff: "fixed", delayMs: 70 })).toEqual([70, 70, 70, 70]);
    expect(delays({ backoff: [5, 50] })).toEqual([5, 50, 50, 50]);
  });

  test("an error that is not worth it ends the task at once", () => {
    expect(afterFailure({ failures: 0, isWorthRetrying: false, random: 0 }, { ...DEFAULT_RETRY, attempts: 9 })).toEqual(
      {
        kind: "fail",
        failures: 1,
        because: "not-worth-retrying",
      },
    );
  });
});

describe("JSON that loses nothing", () => {
  test("takes every JSON value unchanged", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const json = toJson(value);
        expect(json.ok && JSON.parse(json.text)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  const cycle: { self?: unknown } = {};
  cycle.self = { deeper: cycle };
  test.each([
    ["NaN", { a: { b: Number.NaN } }, "NaN at a.b"],
    ["a function", { run: () => 1 }, "a function at run"],
    ["a BigInt", [1n], "a bigint at [0]"],
    ["a Map", { m: new Map() }, "a Map, which JSON cannot hold at m"],
    ["a hole in a list", [undefined], "undefined in a list at [0]"],
    ["a cycle", cycle, "a reference back to an object that contains it at self.deeper"],
    ["a symbol", Symbol("x"), "a symbol"],
  ])("refuses %s and says where it is", (_what, value, problem) => {
    expect(toJson(value)).toEqual({ ok: false, problem: `it is not JSON: ${problem}` });
  });

  test("takes what merely looks odd: dates, undefined properties, the same object twice, nothing at all", () => {
    const shared = { n: 1 };
    expect(toJson({ at: new Date(0), none: undefined, "[0]": undefined, a: shared, b: shared })).toEqual({
      ok: true,
      text: '{"at":"1970-01-01T00:00:00.000Z","a":{"n":1},"b":{"n":1}}',
      changes: new Set(["date", "undefined"]),
    });
    expect(toJson(undefined)).toEqual({ ok: true, text: "null", changes: new Set(["undefined"]) });
  });

  test("looks as closely at what is deep, and at what throws", () => {
    const nested = (value: unknown) => Array.from({ length: 30 }).reduce((inner) => ({ in: [inner] }), value);
    expect(toJson(nested("x"))).toEqual({ ok: true, text: JSON.stringify(nested("x")), changes: new Set() });
    expect(toJson(nested(Number.NaN))).toMatchObject({
      ok: false,
      problem: expect.stringContaining("NaN at in[0].in"),
    });
    const hostile = {
      get a(): string {
        throw new Error("not even this");
      },
    };
    expect(toJson({ hostile })).toEqual({
      ok: false,
      problem: "it is not JSON: a getter throws at hostile.a",
      cause: expect.objectContaining({ message: "not even this" }),
    });
    const refusing = { toJSON: () => hostile.a };
    expect(toJson([{ at: new Date(0) }, { list: [{ toJSON: () => ({ refusing }) }] }])).toEqual({
      ok: false,
      problem: "it is not JSON: a toJSON() throws at [1].list[0].refusing",
      cause: expect.objectContaining({ message: "not even this" }),
    });
    const speaking = Object.assign([1], { toJSON: () => "instead" });
    expect(toJson([speaking])).toEqual({ ok: true, text: '["instead"]', changes: new Set(["toJSON"]) });
  });

  test("has a limit of 1,000 levels, whoever makes them", () => {
    const deep = (levels: number) => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`) as unknown;
    const tooDeep = { ok: false, problem: "it is nested more than 1,000 levels deep" };
    expect(toJson(deep(1_000))).toMatchObject({ ok: true });
    for (const levels of [1_001, 10_000, 100_000]) expect(toJson(deep(levels))).toEqual(tooDeep);
    expect(toJson({ toJSON: () => deep(1_001) })).toEqual(tooDeep);
    expect(toJson([new Date(0), "[{".repeat(2_000), '\\"['.repeat(2_000)])).toMatchObject({ ok: true });
    expect(toJson(Array.from({ length: 5_000 }, () => [new Date(0), {}]))).toMatchObject({ ok: true });
  });

  test("has a limit in bytes, not characters", () => {
    expect(toJson("é".repeat(600), 1_024)).toMatchObject({ ok: false });
    expect(toJson("e".repeat(600), 1_024)).toMatchObject({ ok: true });
  });
});

describe("an error record", () => {
  const cyclic = new Error("round and round");
  cyclic.cause = cyclic;
  const hostile = {
    get message(): string {
      throw new Error("not even this");
    },
  };
  test.each([
    [undefined],
    [null],
    ["just text"],
    [42],
    [Symbol("s")],
    [cyclic],
    [hostile],
    [{ message: "like an error" }],
    [Object.create(null)],
  ])("can be made of anything and stored (%#)", (thrown) => {
    const record = toErrorRecord(thrown);
    expect(record.code).toBe("TASK_FAILED");
    expect(record.message.length).toBeGreaterThan(0);
    expect(toJson(record).ok).toBe(true);
  });

  test("keeps code, name, stack and causes, bounded, and without the zero character", () => {
    const error = Object.assign(new TypeError(`a\0b${"x".repeat(100_000)}`, { cause: new Error("deeper") }), {
      code: "E_X",
    });
    const record = toErrorRecord(error);
    expect(record).toMatchObject({ code: "E_X", name: "TypeError", cause: { message: "deeper" } });
    expect(record.message).not.toContain("\0");
    expect(record.message.length).toBeLessThan(20_000);
    expect(record.stack).toContain("task.test");
  });
});

describe("task ids", () => {
  test("are UUIDs of version 7 that grow, also within a millisecond and when the clock goes back", () => {
    const ids = new TaskIds();
    let last = "";
    for (const now of [...Array<number>(5_000).fill(1_700_000_000_000), 1_600_000_000_000, 1_700_000_000_001]) {
      const id = ids.next(now);
      expect(isUuid(id)).toBe(true);
      expect(id[14]).toBe("7");
      expect("89ab").toContain(id[19]);
      expect(id > last).toBe(true);
      last = id;
    }
  });

  test("grow however many there are in one millisecond", () => {
    const ids = new TaskIds();
    const list = Array.from({ length: 100_000 }, () => ids.next(1_700_000_000_000));
    expect(list.filter((id, place) => !isUuid(id) || id <= (list[place - 1] ?? ""))).toEqual([]);
  });
});

/** What a caller is told about a slip, word by word. */
import { describe, expect, test } from "vitest";
import { exactDuration, longDuration } from "../../src/config/duration.ts";
import { checkOpen } from "../../src/config/open-options.ts";
import { InvalidOptionsError, Problems } from "../../src/config/problems.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { unknownEvent } from "../../src/log-events.ts";
import { checkEnqueueOptions, checkMany, ENQUEUE_SHAPE } from "../../src/queue/enqueue-options.ts";
import { checkQueue } from "../../src/queue/queue-orders.ts";
import { byHandError } from "../../src/recovery/recovery-action.ts";
import { defineBatchTask, defineTask } from "../../src/task/define-task.ts";
import { toErrorRecord } from "../../src/task/error-record.ts";
import { ResultNotStorableError } from "../../src/task/errors.ts";
import { toJson } from "../../src/task/json.ts";
import { ENQUEUE_ONLY } from "../../src/task/settings.ts";
import { checkWork } from "../../src/worker/options.ts";

const run = () => null;
const define = (options: object) => () => defineTask({ name: "a", run, ...options });
const enqueued = (options: object) => () => {
  const problems = new Problems();
  checkEnqueueOptions(options, "", problems);
  problems.throwIfAny("enqueue");
};

const problemsOf = (call: () => unknown): readonly string[] => {
  try {
    call();
  } catch (error) {
    if (error instanceof InvalidOptionsError) return error.problems;
    throw error;
  }
  return [];
};

describe("a caller is told", () => {
  test.each<[string, () => unknown, string]>([
    [
      "the units of a duration, and its bounds in words",
      enqueued({ delay: "1h30m" }),
      'delay: must be a duration up to 10 years: milliseconds such as 1500, or one number with one of the units ms, s, m, h, d, such as "30s" or "1.5h"; not "1h30m"',
    ],
    ["the same of a week", define({ timeout: "1w" }), "timeout: must be a duration from 1ms up to 1 year: "],
    [
      "that a queue's rate limit has no key",
      () => checkQueue("mail", { rateLimit: { key: "a", limit: 1, per: "1s" } } as never),
      "rateLimit.key: a queue's rate limit has no key",
    ],
    [
      "which options belong to enqueue",
      define({ rateLimit: { key: "a", limit: 1, per: "1s" } }),
      "rateLimit: `rateLimit` is an option of enqueue, not of a definition",
    ],
    ["all options that a definition has", define({ zzzzzzzzzz: 1 }), "stalledAfter, onStall, input, run"],
    ["how attempts are given", define({ retry: 3 }), "retry: must be an object such as { attempts: 3 }, not 3"],
    [
      "that a NUL character cannot be stored",
      enqueued({ uniqueKey: "a\0b" }),
      'uniqueKey: contains a NUL character, which PostgreSQL cannot store as text: "a\\u0000b"',
    ],
    [
      "that half a surrogate pair cannot be stored",
      enqueued({ rateLimit: { key: "🫀".slice(1), limit: 1, per: "1s" } }),
      'rateLimit.key: contains half a surrogate pair, which PostgreSQL cannot store as text: "\\udec0"',
    ],
    [
      "what a logger needs",
      () => checkOpen({ log: {} } as never),
      'log: must be a level ("debug", "info", "warn", "error" or "silent") or a logger with the methods debug, info, warn and error, such as pino or console; this object lacks debug, info, warn, error',
    ],
    [
      "what a logger lacks",
      () => checkOpen({ log: { debug: run, info: run, warn: "loud", error: run } } as never),
      "such as pino or console; this object lacks warn",
    ],
    [
      "that a logger's own filter must be a function",
      () => checkOpen({ log: { ...console, isLevelEnabled: true } } as never),
      "log.isLevelEnabled: must be a function, not true",
    ],
    [
      "that queues are a list",
      () => checkWork([defineTask({ name: "a", run })], { queues: "mail" } as never),
      'queues: must be a list of queues such as ["mail"], or an object such as { mail: { concurrency: 2 } }, not "mail"',
    ],
    [
      "that a list of queues is empty",
      () => checkWork([defineTask({ name: "a", run })], { queues: [] }),
      "queues: must name at least one queue, not a list of 0",
    ],
    [
      "that a Date is invalid",
      enqueued({ runAt: new Date(Number.NaN) }),
      "from the year 1000 to 9999, not an invalid Date",
    ],
    ["that a number is a big one", define({ timeout: 5n }), 'such as "30s" or "1.5h"; not 5n'],
    ["that a function was given, without its text", define({ timeout: () => 5 }), "; not a function"],
    [
      "which letters a name may have",
      define({ name: "schlange-ü" }),
      "name: must be 1 to 128 ASCII letters, digits or . _ : / -, starting with a letter or a digit",
    ],
    [
      "what a definition is",
      () => (defineTask as () => unknown)(),
      'must be an object such as { name: "send-mail", run() {} }, not undefined',
    ],
    [
      "what a definition of a batch is",
      () => (defineBatchTask as (given: unknown) => unknown)("a"),
      'must be an object such as { name: "send-mail", run() {} }, not "a"',
    ],
    [
      "that Everbeat is opened, and not constructed",
      () => new (Everbeat as unknown as new () => unknown)(),
      "it is made by Everbeat.open: const everbeat = await Everbeat.open({ database })",
    ],
    [
      "where an address belongs, without showing it",
      () => checkOpen("postgres://app:secret@db/shop" as never),
      'Everbeat.open cannot be used as given:\n  - must be an object such as { database: "postgres://…" }, not text',
    ],
    [
      "where a profile belongs",
      () => checkOpen({ recovery: "slow" } as never),
      'recovery: must be an object such as { profile: "fast" }, not "slow"',
    ],
    [
      "where options of many tasks belong",
      () => checkMany([1], { delay: "5m" } as never),
      "delay: there is no such option here; give it as options: { delay: … }",
    ],
    ["which level is meant", () => checkOpen({ log: "wran" } as never), 'not "wran"; did you mean "warn"?'],
    [
      "which schemas PostgreSQL keeps for itself",
      () => checkOpen({ schema: "pg_x" }),
      "schema: must be 1 to 60 lower-case letters, digits or _, not starting with a digit, nor with pg_",
    ],
  ])("%s", (_what, call, words) => {
    expect(call).toThrow(words);
  });

  test.each<[string, unknown, () => unknown]>([
    ["a task's rate limit", null, enqueued({ rateLimit: null })],
    ["a task's rate limit", [], enqueued({ rateLimit: [] })],
    ["a queue's rate limit", [], () => checkQueue("mail", { rateLimit: [] } as never)],
    ["a worker's queues", ["a b"], () => checkWork([defineTask({ name: "a", run })], { queues: ["a b"] })],
  ])("one thing about %s of %j, not two", (_what, _value, call) => {
    expect(problemsOf(call)).toHaveLength(1);
  });

  test.each(["task.failed", "task.completed", "task.crashed"])("which event is meant by %s", (name) => {
    expect(unknownEvent(name)).toContain('"task.ended" tells of every end');
  });

  test.each(["child.exited", "roll.done"])("that %s happens elsewhere", (name) => {
    expect(unknownEvent(name)).toContain("happens in the process of a supervisor");
  });

  test("the nearest event of any other name", () => {
    expect(unknownEvent("worker.start")).toContain('did you mean "worker.started"?');
  });

  test("how long a worker was silent as people say it", () => {
    const told = byHandError({ replicaId: "r", hostname: "h", silentForMs: 35_455, isOwnerDead: true } as never);
    expect(told.message).toContain("was dead (silent for 35.5s)");
  });
});

test("what is wrong with a result is followed by what helps against that", () => {
  const told = (problem: string) => new ResultNotStorableError("a", { problem }).message;
  const problemOf = (value: unknown) => {
    const json = toJson(value, 1_024);
    return json.ok ? "" : json.problem;
  };
  expect(told(problemOf(() => 1))).toMatch(/it is not JSON: a function\. Return plain JSON, or nothing\.$/);
  expect(told(problemOf("x".repeat(2_000)))).toMatch(/store it elsewhere and pass a reference\.$/);
});

test.each([
  [new Error("x"), "an Error, which JSON cannot hold"],
  [new Map(), "a Map, which JSON cannot hold"],
  [{ at: new Date(Number.NaN) }, "an invalid Date at at"],
  [[new Date(Number.NaN)], "an invalid Date at [0]"],
])("what JSON cannot hold is named: %s", (value, words) => {
  expect(toJson(value)).toEqual({ ok: false, problem: `it is not JSON: ${words}` });
});

test("a big integer that was thrown is shown as one", () => {
  expect(toErrorRecord(10n).message).toBe("The handler threw 10n.");
});

test("the options of enqueue that a definition does not have are all known as such", () => {
  const inBoth = ["queue", "priority"];
  expect([...ENQUEUE_ONLY].sort()).toEqual(
    Object.keys(ENQUEUE_SHAPE)
      .filter((key) => !inBoth.includes(key))
      .sort(),
  );
});

test.each([
  [1_005, "1.005s"],
  [250, "250ms"],
  [60_000, "1m"],
  [90_000, "1m 30s"],
  [3_661_005, "1h 1m 1.005s"],
  [86_400_000, "1d"],
])("a setting of %i ms is shown as %s, with nothing rounded away", (ms, words) => {
  expect(exactDuration(ms)).toBe(words);
});

test("bounds of years are said in years", () => {
  expect([longDuration(3_650 * 86_400_000), longDuration(365 * 86_400_000), longDuration(86_400_000)]).toEqual([
    ...["10 years", "1 year", "1d"],
  ]);
});

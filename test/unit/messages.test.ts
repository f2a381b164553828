/** What a caller is told about a slip, word by word. */
import { describe, expect, test } from "vitest";
import { exactDuration, longDuration } from "../../src/config/duration.ts";
import { checkOpen } from "../../src/config/open-options.ts";
import { InvalidOptionsError, Problems } from "../../src/config/problems.ts";
import { unknownEvent } from "../../src/everbeat.ts";
import { checkEnqueueOptions, ENQUEUE_SHAPE } from "../../src/queue/enqueue-options.ts";
import { checkQueue } from "../../src/queue/queue-orders.ts";
import { byHandError } from "../../src/recovery/recovery-action.ts";
import { defineTask } from "../../src/task/define-task.ts";
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

  test("the nearest event of any other name", () => {
    expect(unknownEvent("worker.start")).toContain('did you mean "worker.started"?');
  });

  test("how long a worker was silent as people say it", () => {
    const told = byHandError({ replicaId: "r", hostname: "h", silentForMs: 35_455, isOwnerDead: true } as never);
    expect(told.message).toContain("was dead (silent for 35.5s)");
  });
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

/** A logger that a user gives: it may throw what it likes, now or later, and nobody but the count of dropped lines is any the wiser. */
import { expect, test } from "vitest";
import { neverThrowing } from "../../src/given-logger.ts";
import type { Logger } from "../../src/log.ts";
import { LogHealth } from "../../src/log-health.ts";

const LEVELS = ["debug", "info", "warn", "error"] as const;

/** Does the same on each level. */
function loggerThat(does: () => unknown, more: Partial<Logger> = {}) {
  const health = new LogHealth();
  const given = Object.fromEntries(LEVELS.map((level) => [level, does])) as unknown as Logger;
  return { health, log: neverThrowing({ ...given, ...more }, health) };
}

const unexaminable = new Proxy(
  {},
  {
    getPrototypeOf() {
      throw new Error("no");
    },
    get() {
      throw new Error("no");
    },
  },
);
const unshowable = Object.assign(() => {}, {
  toString() {
    throw new Error("no");
  },
});
const THROWN: Record<string, [thrown: unknown, told: string]> = {
  "an error": [new Error("EPIPE"), "EPIPE"],
  "an error with a cause": [new Error("no line", { cause: new Error("EPIPE") }), "no line (cause: EPIPE)"],
  "an object without a prototype": [Object.create(null), "{}"],
  "an object that cannot be examined": [unexaminable, "Something was thrown that cannot be examined."],
  "a function that cannot be shown": [unshowable, "a function that cannot be shown"],
  "a symbol": [Symbol("line"), "Symbol(line)"],
};

test.each(Object.entries(THROWN))("%s that it throws is told in words, and its line counted", (_, [thrown, told]) => {
  const { log, health } = loggerThat(() => {
    throw thrown;
  });
  for (const level of LEVELS) log[level]({}, "line");
  expect([health.dropped, health.isWell]).toEqual([4, false]);
  expect(health.reason).toBe(`the logger threw an error (cause: ${told})`);
});

test("where it throws nothing at all, its line is counted as well", () => {
  const { log, health } = loggerThat(() => {
    throw undefined;
  });
  log.error({}, "line");
  expect([health.dropped, health.reason]).toEqual([1, "the logger threw an error"]);
});

test("what it throws is told shortly, however long it is", () => {
  const { log, health } = loggerThat(() => {
    throw new Error("x".repeat(1_000_000));
  });
  log.error({}, "line");
  expect(health.reason.length).toBeLessThan(1_000);
});

test("a line that it takes is no trouble, and ends the one before", () => {
  let mustThrow = true;
  const { log, health } = loggerThat(() => {
    if (mustThrow) throw new Error("EPIPE");
  });
  log.info({}, "dropped");
  mustThrow = false;
  log.info({}, "taken");
  expect(health).toMatchObject({ dropped: 1, isWell: true });
});

test("a promise that it returns may fail later, and that is nobody's unhandled rejection", async () => {
  let fail: (error: unknown) => void = () => {};
  const { log, health } = loggerThat(() => new Promise((_, reject) => (fail = reject)));
  log.warn({}, "line");
  expect(health).toMatchObject({ dropped: 0 });
  fail(Object.create(null));
  await new Promise((resume) => setImmediate(resume));
  expect(health).toMatchObject({ dropped: 1, isWell: false });
});

test("one that does not say which levels it takes is asked for all", () => {
  const isLevelEnabled = () => {
    throw new Error("no level");
  };
  expect(loggerThat(() => {}, { isLevelEnabled }).log.isLevelEnabled?.("debug")).toBe(true);
  expect(loggerThat(() => {}, { isLevelEnabled: () => false }).log.isLevelEnabled?.("debug")).toBe(false);
  expect(loggerThat(() => {}).log.isLevelEnabled).toBeUndefined();
});

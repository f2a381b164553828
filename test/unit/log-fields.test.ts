/** What a handler logs: errors are shown, no line loses what it is about, and no line fails the task. */
import { describe, expect, test } from "vitest";
import { coloursFor } from "../../src/cli/colours.ts";
import { createWorkLog } from "../../src/cli/work-log.ts";
import { defineTask, type Logger, type TaskContext } from "../../src/index.ts";
import { jsonLogger, withFields } from "../../src/log.ts";
import { showableFields } from "../../src/log-fields.ts";
import { packageFile } from "../../src/package-files.ts";
import { LogBudget } from "../../src/runner/log-budget.ts";
import { createRunnerContext } from "../../src/runner/runner-context.ts";
import { runHandler } from "../../src/testing/index.ts";

type Log = TaskContext["log"];

/** A line of the built-in logger, as a handler's log makes it. */
function lineOf(call: (log: Logger) => void): Record<string, unknown> {
  const lines: string[] = [];
  const log = jsonLogger({ level: "debug", write: (line) => lines.push(line) });
  call(withFields(log, { task: "mail", taskId: "t1", attempt: 2 }));
  expect(lines).toHaveLength(1);
  return JSON.parse(lines[0] ?? "");
}

/** What a handler that calls this has logged. */
async function logged(call: (log: Log) => void) {
  const run = await runHandler(defineTask({ name: "mail", run: (_: undefined, { log }) => call(log) }), undefined);
  expect(run).toMatchObject({ outcome: "returned" });
  return run.logs;
}

/** The same in a runner: what it sends to its replica. */
function carried(call: (log: Log) => void) {
  const calls: unknown[] = [];
  const task = { id: "t1", name: "mail", enqueuedAt: "2030-01-01" };
  const { log } = createRunnerContext({
    item: { task, claimId: "1", replicaId: "r" },
    signal: new AbortController().signal,
    charge: { schema: "everbeat", resultLimitBytes: 1 },
    budget: new LogBudget(() => 0),
    call: (_: string, args: readonly unknown[]) => calls.push(args),
  } as never);
  call(log);
  expect(() => structuredClone(calls)).not.toThrow();
  return calls;
}

const cause = Object.assign(new TypeError("why"), { code: "E_WHY" });
const error = Object.assign(new Error("boom", { cause }), { code: "E_BOOM" });
const SHOWN = {
  name: "Error",
  message: "boom",
  code: "E_BOOM",
  stack: expect.stringContaining("log-fields.test.ts"),
  cause: { name: "TypeError", message: "why", code: "E_WHY" },
};

const circular: Record<string, unknown> = { n: 1 };
circular["self"] = circular;
const twice = { n: 1 };
const throwing = {
  fine: 1,
  get bad() {
    throw new Error("no");
  },
};

function knowingEachOther(count: number): unknown {
  const all: Record<string, unknown>[] = Array.from({ length: count }, () => ({}));
  for (const one of all) Object.assign(one, { ...all });
  return all;
}

function doubled(times: number): unknown {
  let list: unknown = ["x"];
  for (let n = 0; n < times; n++) list = [list, list];
  return list;
}

describe("errors in fields", () => {
  test("are written with what is known of them, under any key and at any depth", () => {
    expect(lineOf((log) => log.error({ err: error, deep: { list: [error] } }, "x"))).toMatchObject({
      err: SHOWN,
      deep: { list: [SHOWN] },
    });
  });

  test("go from a runner to its replica", () => {
    expect(carried((log) => log.error({ err: error }, "x"))).toMatchObject([["error", { err: SHOWN }, "x"]]);
  });

  test("are seen by people, too", () => {
    const lines: string[] = [];
    const screen = { isJson: false, colours: coloursFor({}, {}), say: (line: string) => lines.push(line) };
    createWorkLog(screen as never, "debug").error({ err: error, n: 1n, throwing }, "x");
    expect(lines.join()).toMatch(/err=.*boom.* n=1 throwing=.*fine/);
  });
});

describe("an error in a line for people", () => {
  const shownAs = (fields: Record<string, unknown>, message: string) => {
    const lines: string[] = [];
    const screen = { isJson: false, colours: coloursFor({}, {}), say: (line: string) => lines.push(line) };
    createWorkLog(screen as never, "debug").error(fields, message);
    return lines.join("\n");
  };
  const failed = Object.assign(new TypeError("no such size"), {
    code: "E_SIZE",
    stack: [
      "TypeError: no such size",
      "    at resize (/app/src/resize.ts:12:5)",
      "    at node:internal/process/task_queues:95:5",
      "    at async run (file:///app/src/tasks.ts:3:1)",
      "    at parse (/app/node_modules/zod/parse.js:1:1)",
      `    at Worker.run (${packageFile("dist/parts/one.js")}:7:7)`,
    ].join("\n"),
  });

  test("is its name, what it says, and where in their own code: JSON has the rest", () => {
    const shown = "TypeError E_SIZE: no such size at resize (resize.ts:12), at async run (tasks.ts:3)";
    expect(shownAs({ err: failed }, "oh")).toMatch(new RegExp(`✗ oh {2}err=${shown.replaceAll(/[()]/g, "\\$&")}$`));
    // As it comes from a runner.
    expect(shownAs(showableFields({ err: failed }), "oh")).toContain(`err=${shown}`);
    expect(shownAs({ err: new Error("outer", { cause: failed }) }, "oh")).toContain(`(cause: ${shown})`);
  });

  test("is not told twice, as in log.error(error)", () => {
    expect(shownAs({ err: failed }, failed.message)).toMatch(/✗ no such size {2}err=TypeError E_SIZE at resize/);
  });
});

describe("a line whose fields are odd", () => {
  const ABOUT = { time: expect.any(String), level: "info", message: "x", task: "mail", taskId: "t1", attempt: 2 };

  test.each<[string, Record<string, unknown>, unknown]>([
    ["a big integer", { own: 10n }, "10"],
    ["a circle", { own: circular }, { n: 1, self: "[circular]" }],
    ["a getter that throws", { own: throwing }, { fine: 1, bad: "[cannot be read]" }],
    ["a date", { own: new Date(0) }, "1970-01-01T00:00:00.000Z"],
    ["one object twice", { own: [twice, twice] }, [{ n: 1 }, { n: 1 }]],
    ["what JSON leaves out", { own: [undefined, Symbol("s"), { f: () => 1, u: undefined }] }, [null, null, {}]],
    ["a toJSON that throws", { own: { toJSON: () => BigInt("no") } }, "[cannot be read]"],
    [
      "a proxy that throws",
      { own: new Proxy({}, { getPrototypeOf: () => BigInt("no") as never }) },
      "[cannot be read]",
    ],
    ["a function that would speak for the line", { own: 1, toJSON: () => "another line" }, 1],
    ["a buffer", { own: Buffer.alloc(1_000) }, "[Buffer of 1000 bytes]"],
    ["an error that is its own cause", { own: ownCause() }, expect.objectContaining({ cause: "[circular]" })],
  ])("%s: is whole otherwise", (_, fields, own) => {
    expect(lineOf((log) => log.info(fields, "x"))).toEqual({ ...ABOUT, own });
    expect(carried((log) => log.info(fields, "x"))).toEqual([["info", { own }, "x"]]);
  });

  test("too deep: is whole otherwise", () => {
    let deep: unknown = 1;
    for (let depth = 0; depth < 100_000; depth++) deep = { deep };
    expect(lineOf((log) => log.info({ deep, fine: 1 }, "x"))).toMatchObject({ ...ABOUT, fine: 1, deep: { deep: {} } });
  });

  test.each<[string, () => unknown]>([
    ["objects that all know each other", () => knowingEachOther(12)],
    ["one list twice in a list, and so on", () => doubled(30)],
    ["a list of a million", () => new Array(1_000_000).fill({ n: 1 })],
    ["a long list of long lists", () => new Array(20_000).fill(new Array(20_000).fill(1))],
    ["a million names", () => Object.fromEntries(Array.from({ length: 1_000_000 }, (_, n) => [`n${n}`, n]))],
    ["a long text", () => "x".repeat(50_000_000)],
  ])("too much (%s): is short, and whole otherwise", (_, much) => {
    const line = lineOf((log) => log.info({ fine: 1, much: much() }, "x"));
    expect(line).toMatchObject({ ...ABOUT, fine: 1 });
    const text = JSON.stringify(line);
    expect(text.length).toBeLessThan(1_000_000);
    expect(text).toMatch(/too much for a line|50000000 characters/);
  });

  test("a getter of the fields themselves that throws fails no task", async () => {
    expect(await logged((log) => log.info(throwing as never, "x"))).toMatchObject([
      { message: "x", fields: { fine: 1, bad: "[cannot be read]", task: "mail" } },
    ]);
  });

  test("the fields of a handler take nothing from the line's own", () => {
    const theirs = { time: 1, level: 2, message: 3, task: 4, taskId: 5 };
    expect(lineOf((log) => log.info(theirs, "x"))).toEqual({
      ...ABOUT,
      "fields.time": 1,
      "fields.level": 2,
      "fields.message": 3,
      "fields.task": 4,
      "fields.taskId": 5,
    });
  });
});

describe("a handler may log", () => {
  test.each<[string, (log: Log) => void, object, string]>([
    ["a text", (log) => log.info("hello"), {}, "hello"],
    ["a text and fields", (log) => log.info("hello", { to: "you" }), { to: "you" }, "hello"],
    ["a text and an error", (log) => log.info("hello", error), { err: SHOWN }, "hello"],
    ["fields and a text", (log) => log.info({ n: 1 }, "hello"), { n: 1 }, "hello"],
    ["fields alone", (log) => log.info({ n: 1 }), { n: 1 }, ""],
    ["an error", (log) => log.info(error), { err: SHOWN }, "boom"],
    ["an error and a text", (log) => log.info(error, "hello"), { err: SHOWN }, "hello"],
    ["nothing much", (log) => log.info(undefined as never, "hello"), {}, "hello"],
    ["a number", (log) => log.info(42 as never), {}, "42"],
    ["a symbol", (log) => log.info(Symbol("s") as never), {}, "Symbol(s)"],
  ])("%s", async (_, call, fields, message) => {
    const [line] = await logged(call);
    expect(line).toMatchObject({ level: "info", message, fields: { task: "mail" } });
    const { task, taskId, attempt, ...own } = line?.fields ?? {};
    expect(lineOf((log) => log.info(own, "x"))).toMatchObject(fields);
    expect(Object.keys(own)).toEqual(Object.keys(fields));
    expect(carried(call)).toMatchObject([["info", fields, message]]);
  });

  test("what cannot even be looked at, which fails no task", async () => {
    const odd = new Proxy({}, { getPrototypeOf: () => BigInt("no") as never });
    expect(await logged((log) => log.info(odd))).toHaveLength(1);
    expect(await logged((log) => log.info({}, Object.create(null)))).toHaveLength(1);
  });

  test("through a helper that takes a logger", async () => {
    const helper = (log: Logger) => log.warn({ n: 1 }, "helped");
    expect(await logged((log) => helper(log))).toMatchObject([{ level: "warn", message: "helped" }]);
  });
});

function ownCause(): Error {
  const own = new Error("own");
  own.cause = own;
  return own;
}

test("a logger with more fields knows as well as before which lines nobody will see", () => {
  const log = withFields(jsonLogger({ level: "warn", write: () => {} }), { task: "mail" });
  expect([log.isLevelEnabled?.("info"), log.isLevelEnabled?.("warn")]).toEqual([false, true]);
  const own: Logger = { debug() {}, info() {}, warn() {}, error() {} };
  expect(withFields(own, {})).not.toHaveProperty("isLevelEnabled");
});

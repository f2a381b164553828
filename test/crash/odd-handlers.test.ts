/** Handlers that do everything wrong: each fails its own task, and the worker and its other tasks go on. */
import { describe, expect, test } from "vitest";
import { defineTask, type Task } from "../../src/task/define-task.ts";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startWorker, task } from "../support/worker-process.ts";

const cyclic: { self?: unknown } = {};
cyclic.self = cyclic;

const THROWN: Record<string, unknown> = {
  undefined: undefined,
  null: null,
  "a string": "a string",
  "a symbol": Symbol("odd"),
  "a BigInt": 1n,
  "a function": () => {},
  "an object without a prototype": Object.create(null),
  "an error with a cycle": (() => {
    const error = new Error("round and round");
    error.cause = error;
    return Object.assign(error, { self: error });
  })(),
  "getters that throw": Object.defineProperties(
    {},
    Object.fromEntries(
      ["message", "code", "name", "stack", "cause", "toString", "retryable"].map((key) => [key, { get: thrower }]),
    ),
  ),
  "a proxy that throws": new Proxy(new Error("inside"), { get: thrower, has: thrower, getPrototypeOf: thrower }),
  "an error with odd text": Object.assign(new Error("zero \0 and half \ud800 a pair"), { code: "\udc00" }),
  "a very long message": new Error("😀".repeat(100_000)),
  "an error whose message is no text": Object.assign(new Error("x"), { message: { not: "text" }, code: 42, stack: 7 }),
};

const RETURNED: Record<string, unknown> = {
  "a BigInt": { amount: 1n },
  "a cycle": cyclic,
  "more than 1 MiB": "x".repeat(1_048_577),
  "a function": () => {},
  NaN: { ratio: Number.NaN },
  "a toJSON that throws": { toJSON: thrower },
  "getters that throw": Object.defineProperty({}, "result", { enumerable: true, get: thrower }),
};

function thrower(): never {
  throw new Error("thrown by a getter");
}

describe("a handler that throws or returns something odd", () => {
  test("fails its own task and nothing else", { timeout: 60_000 }, async () => {
    const { everbeat, expectSound } = await openCrashDatabase();
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const bystander = defineTask({ name: "bystander", run: async () => released.then(() => "unharmed") });
    const odd = [
      ...Object.entries(THROWN).map(
        ([what, thrown], index) => [`throws ${what}`, throwing(`throw-${index}`, thrown)] as const,
      ),
      ...Object.entries(THROWN).map(
        ([what, thrown], index) => [`throws ${what} at once`, throwingAtOnce(`now-${index}`, thrown)] as const,
      ),
      ...Object.entries(RETURNED).map(
        ([what, value], index) => [`returns ${what}`, returning(`return-${index}`, value)] as const,
      ),
    ];
    await everbeat.work([bystander, ...odd.map(([, task]) => task)] as never, { handleSignals: false });
    const beside = await everbeat.enqueue(bystander, undefined);
    const endings = await Promise.all(
      odd.map(async ([what, task]) => {
        const id = await everbeat.enqueue(task, undefined);
        const ending = await everbeat.result(id, { timeout: 20_000 }).catch((error: unknown) => error);
        return { what, state: (ending as { state?: string }).state, code: (ending as { code?: string }).code };
      }),
    );
    expect(endings.filter(({ state }) => state !== "failed")).toEqual([]);
    const refusedResults = endings.filter(({ what }) => what.startsWith("returns"));
    expect(refusedResults.filter(({ code }) => code !== "RESULT_NOT_STORABLE")).toEqual([]);
    release();
    expect(await everbeat.result(beside)).toBe("unharmed");
    await expectSound();
  });
});

function throwing(name: string, thrown: unknown): Task<void, void> {
  return defineTask({ name, run: async () => Promise.reject(thrown) });
}

function throwingAtOnce(name: string, thrown: unknown): Task<void, void> {
  return defineTask({
    name,
    run: () => {
      throw thrown;
    },
  });
}

function returning(name: string, value: unknown): Task<void, unknown> {
  return defineTask({ name, run: async () => value });
}

describe("an outcome that the database does not take", () => {
  const failWith = (code: string) => `
    create or replace function refuse() returns trigger language plpgsql as $$
    begin raise exception 'not taken' using errcode = '${code}'; end $$;
    create trigger refuse before insert on everbeat.ended for each row when (new.result::text = '"odd"') execute function refuse()`;
  const echo = defineTask({ name: "echo", run: async (input: string) => input });

  test("because of what it holds: fails its own task, not those that are written with it", async () => {
    const { everbeat, query, expectSound } = await openCrashDatabase();
    await query(failWith("22P05"));
    const ids = await everbeat.enqueueMany(echo, ["even", "odd", "even", "even", "even"]);
    await everbeat.work([echo], { handleSignals: false });
    const endings = await Promise.all(
      ids.map((id) => everbeat.result(id).catch((error: { code: string }) => error.code)),
    );
    expect(endings).toEqual(["even", "OUTCOME_NOT_STORABLE", "even", "even", "even"]);
    await expectSound();
  });

  test("because of some trouble of its own: is held, and written when that is over", async () => {
    const { everbeat, query, count, expectSound } = await openCrashDatabase();
    await query(failWith("53100"));
    let attempts = 0;
    everbeat.on("database.lost", () => attempts++);
    const id = await everbeat.enqueue(echo, "odd");
    await everbeat.work([echo], { handleSignals: false });
    await eventually(() => attempts > 0);
    expect(await count("everbeat.running")).toBe(1);
    await query("drop trigger refuse on everbeat.ended");
    expect(await everbeat.result(id, { timeout: 10_000 })).toBe("odd");
    await expectSound();
  });
});

describe("an error that no handler sees", () => {
  test.each([
    ["rejectUnawaited", "rejected and nobody awaits it"],
    ["throwInTimer", "thrown in a timer"],
  ] as const)("%s: fails the task that it comes from, and no other", async (handler, message) => {
    const { everbeat, url, expectSound } = await openCrashDatabase();
    const tasks = [{ handler: "deaf" as const }, { handler }];
    const worker = await startWorker({ url, work: { concurrency: 20 }, tasks, forward: ["task.ended"] });
    const deaf = task("deaf");
    const stray = defineTask({ name: handler, run: async (_input: object) => {} });
    const beside = await everbeat.enqueueMany(deaf, [{}, {}, {}]);
    for (const id of beside) await worker.heard({ handler: "begun", taskId: id });
    const ids = await everbeat.enqueueMany(
      stray,
      Array.from({ length: 10 }, () => ({})),
    );
    for (const id of ids)
      await expect(everbeat.result(id, { timeout: 10_000 })).rejects.toMatchObject({
        state: "failed",
        error: { message },
      });
    worker.release();
    for (const id of beside) expect(await everbeat.result(id)).toBe("held");
    await expectSound();
  });

  test.each(["throw", "reject"] as const)(
    "from outside of any task (%s): ends the process as it would without a worker",
    async (kind) => {
      const { url } = await openCrashDatabase();
      const worker = await startWorker({ url, work: {}, tasks: [{ handler: "quick" }] });
      worker.blunder(kind);
      expect(await worker.exited).toEqual({ code: 1, signal: null });
      expect(worker.complaints()).toContain("a blunder of the application");
    },
  );
});

import { describe, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import {
  ClaimLostError,
  defineBatchTask,
  defineTask,
  InvalidInputError,
  InvalidOptionsError,
  type TaskContext,
  type Transaction,
} from "../../src/index.ts";
import { runBatchHandler, runHandler } from "../../src/testing/index.ts";

const double = defineTask({
  name: "double",
  input: z.object({ n: z.number(), note: z.string().default("none") }),
  retry: { attempts: 3, backoff: "fixed", delay: "1m", jitter: 0, unless: ["POINTLESS"] },
  run: ({ n, note }, { log, task }) => {
    log.info({ n }, "doubling");
    if (n < 0) throw Object.assign(new Error("negative"), { code: n < -1 ? "POINTLESS" : "NEGATIVE" });
    return { doubled: n * 2, note, attempt: task.attempt };
  },
});

describe("runHandler", () => {
  test("gives the handler its input as the schema makes it, and returns what it returns", async () => {
    const run = await runHandler(double, { n: 21 }, { attempt: 2 });
    expect(run).toMatchObject({ outcome: "returned", result: { doubled: 42, note: "none", attempt: 2 } });
    expect(run.logs).toMatchObject([{ level: "info", message: "doubling", fields: { n: 21, task: "double" } }]);
  });

  test("an input that does not fit its schema never reaches the handler", async () => {
    const run = await runHandler(double, { n: "21" } as unknown as { n: number });
    expect(run).toMatchObject({ outcome: "threw", willRunAgain: false, logs: [] });
    expect(run.error).toBeInstanceOf(InvalidInputError);
  });

  test("says whether a worker would run it again", async () => {
    expect(await runHandler(double, { n: -1 })).toMatchObject({ outcome: "threw", willRunAgain: true });
    expect(await runHandler(double, { n: -1 }, { attempt: 3 })).toMatchObject({ willRunAgain: false });
    expect(await runHandler(double, { n: -2 })).toMatchObject({ willRunAgain: false });
  });

  test("the input goes through JSON, as it does on its way to a worker", async () => {
    const task = defineTask({ name: "dated", run: (input: { at: Date }) => typeof input.at });
    const run = await runHandler(task, { at: new Date() });
    expect(run.result).toBe("string");
    expectTypeOf(run.result).toExtend<string | undefined>();
    expectTypeOf(run.logs[0]?.level).toEqualTypeOf<"debug" | "info" | "warn" | "error" | undefined>();
    await expect(runHandler(task, { at: (() => 1) as unknown as Date })).rejects.toThrow(InvalidOptionsError);
  });

  test("a snooze and a result that cannot be stored end it as they do in a worker", async () => {
    const snoozing = defineTask({ name: "snoozing", run: (_: undefined, { snooze }: TaskContext) => snooze("5m") });
    expect(await runHandler(snoozing, undefined)).toMatchObject({ outcome: "snoozed", delayMs: 300_000 });
    const unstorable = defineTask({ name: "unstorable", run: () => new Map([[1, 2]]) });
    expect(await runHandler(unstorable, undefined)).toMatchObject({
      outcome: "threw",
      error: { code: "RESULT_NOT_STORABLE" },
    });
  });

  test("the claim writes down what was guarded and completed, and refuses where it is lost", async () => {
    const fenced = defineTask({
      name: "fenced",
      run: async (_: undefined, { claim }: TaskContext) => {
        await claim.guard(tx);
        await claim.completeIn(tx, 7);
        return 7;
      },
    });
    const tx: Transaction = { query: async () => ({ rows: [] }) };
    const run = await runHandler(fenced, undefined);
    expect(run).toMatchObject({ outcome: "returned", guarded: [tx], completions: [{ tx, result: 7 }] });

    const lost = await runHandler(fenced, undefined, { claim: { id: "99", isLost: true } });
    expect(lost).toMatchObject({ outcome: "threw", guarded: [], completions: [], error: { claimId: "99" } });
    expect(lost.error).toBeInstanceOf(ClaimLostError);
  });

  test("a signal that fires reaches the handler; one that is ignored is told apart", async () => {
    const obedient = defineTask({
      name: "obedient",
      run: (_: undefined, { signal }: TaskContext) =>
        new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    });
    const deaf = defineTask({ name: "deaf", run: () => new Promise(() => {}) });
    const signal = AbortSignal.timeout(10);
    expect(await runHandler(obedient, undefined, { signal })).toMatchObject({ error: { name: "TimeoutError" } });
    expect(await runHandler(deaf, undefined, { signal, abortGrace: 10 })).toMatchObject({ outcome: "abandoned" });
  });

  test("middleware runs around the handler, and the context carries what it was given", async () => {
    const seen: unknown[] = [];
    const task = defineTask({ name: "inner", run: (_: undefined, context: TaskContext) => seen.push(context.task) });
    await runHandler(task, undefined, {
      metadata: { tenant: "a" },
      queue: "q",
      middleware: [
        async (context, next) => {
          seen.push(context.task.name);
          return next();
        },
      ],
    });
    expect(seen).toMatchObject(["inner", { queue: "q", attempt: 1, failures: 0, metadata: { tenant: "a" } }]);
  });

  test("a batch is one call with an outcome for each", async () => {
    let calls = 0;
    const batch = defineBatchTask({
      name: "batch",
      input: z.number(),
      batchSize: 10,
      run: async (items) => {
        calls++;
        return items.map(({ input, context }) => {
          context.log.info({}, `item ${input}`);
          return input === 2 ? new Error("two") : input * 10;
        });
      },
    });
    const runs = await runBatchHandler(batch, [1, 2, "3" as unknown as number, 4]);
    expect(calls).toBe(1);
    expect(runs).toMatchObject([
      { outcome: "returned", result: 10, logs: [{ message: "item 1" }] },
      { outcome: "threw", error: { message: "two" }, logs: [{ message: "item 2" }] },
      { outcome: "threw", error: { code: "INVALID_INPUT" }, logs: [] },
      { outcome: "returned", result: 40, logs: [{ message: "item 4" }] },
    ]);
  });

  test("an option that does not exist is refused with the nearest one", async () => {
    const options = { atempt: 2 } as unknown as { attempt: number };
    await expect(runHandler(double, { n: 1 }, options)).rejects.toThrow(/did you mean "attempt"/);
  });
});

describe("arguments that are wrong are refused, and it is said why:", () => {
  const batch = defineBatchTask({
    name: "batch",
    batchSize: 2,
    run: async (items: readonly { input: number }[]) => items.map(() => 1),
  });
  test.each<[string, () => Promise<unknown>, RegExp]>([
    ["a name for a task", () => runHandler("u" as never, 1), /runHandler.*must be a task made by defineTask, not "u"/s],
    ["no task", () => runBatchHandler(undefined as never, [1]), /must be a task made by defineTask, not undefined/],
    [
      "no list of inputs",
      () => runBatchHandler(batch, 5 as never),
      /inputs: must be a list of one input or more, not 5/,
    ],
    ["an empty list", () => runBatchHandler(batch, []), /inputs: must be a list of one input or more/],
    ["a batch task alone", () => runHandler(batch, 1), /task "batch" takes batches: use runBatchHandler/],
    ["an ordinary task as a batch", () => runBatchHandler(double, [{ n: 1 }]), /one input at a time: use runHandler/],
  ])("%s", async (_, call, why) => {
    const refused = call();
    await expect(refused).rejects.toThrow(InvalidOptionsError);
    await expect(refused).rejects.toThrow(why);
  });
});

import { AsyncLocalStorage } from "node:async_hooks";
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { TaskContext } from "../../src/task/context.ts";
import { defineBatchTask, defineTask } from "../../src/task/define-task.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { gate, unique, workingOn } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const { working, disposable, record } = workingOn(everbeat);

describe("a handler", () => {
  test("is tried again until it succeeds, and each attempt is on record", async () => {
    const task = defineTask({
      name: unique("third-time"),
      retry: { attempts: 3, backoff: [5, 10] },
      run: (_input: unknown, { task: { attempt, failures } }: TaskContext) => {
        if (attempt < 3) throw new Error(`attempt ${attempt}`);
        return { attempt, failures };
      },
    });
    await using _worker = await disposable(working([task]));
    const id = await everbeat.enqueue(task, 1);
    expect(await everbeat.result(id)).toEqual({ attempt: 3, failures: 2 });
    const { attempts } = await everbeat.tasks.show(id);
    expect(attempts.map((attempt) => [attempt.attempt, attempt.outcome, attempt.error?.message])).toEqual([
      [1, "failed", "attempt 1"],
      [2, "failed", "attempt 2"],
      [3, "completed", undefined],
    ]);
    expect(new Set(attempts.map((attempt) => attempt.claimId)).size).toBe(3);
    expect(attempts.every((attempt) => attempt.startedAt && attempt.endedAt && attempt.replicaId)).toBe(true);
  });

  test("is tried again where its retry.unless throws, which is told", async () => {
    const name = unique("ill-judged");
    const task = defineTask({
      name,
      retry: {
        attempts: 2,
        backoff: [5],
        unless: () => {
          throw new Error("judge is ill");
        },
      },
      run: (): number => {
        throw new Error("it failed");
      },
    });
    const threw = record("retry.unless-threw");
    await using _worker = await disposable(working([task]));
    const id = await everbeat.enqueue(task);
    await expect(everbeat.result(id)).rejects.toThrow("it failed");
    const told = [1, 2].map((attempt) => ({ taskId: id, name, attempt, reason: "judge is ill" }));
    expect(threw).toMatchObject(told);
  });

  test("sees the asynchronous context of whoever started its worker, whatever other handlers have entered", async () => {
    const application = new AsyncLocalStorage<string>();
    const own = new AsyncLocalStorage<number>();
    const task = defineTask({
      name: unique("in-context"),
      run: async (n: number) => {
        const before = own.getStore() ?? "nothing";
        own.enterWith(n);
        await nextTurn();
        return [application.getStore() ?? "nothing", before, own.getStore() ?? "nothing"];
      },
    });
    await using _worker = await disposable(application.run("ours", () => working([task])));
    const ids = await everbeat.enqueueMany(task, [1, 2, 3]);
    const seen = await Promise.all(ids.map((id) => everbeat.result(id)));
    expect(seen).toEqual([1, 2, 3].map((n) => ["ours", "nothing", n]));
  });

  test("that gives up ends at once", async () => {
    const task = defineTask({
      name: unique("gone"),
      retry: { attempts: 5, unless: ["E_GONE"] },
      run: () => Promise.reject(Object.assign(new Error("gone"), { code: "E_GONE" })),
    });
    await using _worker = await disposable(working([task]));
    const id = await everbeat.enqueue(task, undefined);
    await expect(everbeat.result(id)).rejects.toMatchObject({ code: "E_GONE" });
    expect((await everbeat.tasks.show(id)).attempts).toHaveLength(1);
  });

  test("that runs past its timeout is told, and fails with that reason", async () => {
    const task = defineTask({
      name: unique("hanging"),
      timeout: 30,
      run: (_input: unknown, { signal }: TaskContext) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("stopped myself")))),
    });
    await using _worker = await disposable(working([task]));
    await expect(everbeat.result(await everbeat.enqueue(task, 1))).rejects.toMatchObject({ code: "TASK_TIMED_OUT" });
  });

  test("that ignores its signal is abandoned after the grace, and its slot goes to others", async () => {
    const abandoned = record("handler.abandoned");
    const deaf = defineTask({ name: unique("deaf"), timeout: 20, run: () => new Promise(() => {}) });
    const next = defineTask({ name: unique("next"), run: () => "ran" });
    await using _worker = await disposable(working([deaf, next], { concurrency: 1, abortGrace: 30 }));
    const id = await everbeat.enqueue(deaf, undefined);
    const after = await everbeat.enqueue(next, undefined);
    await expect(everbeat.result(id)).rejects.toMatchObject({ code: "TASK_TIMED_OUT" });
    expect(await everbeat.result(after)).toBe("ran");
    expect(abandoned).toMatchObject([{ taskId: id }]);
  });

  test("that leaves something behind which fails when its attempt has ended changes no outcome, and is told of", async () => {
    const late = record("handler.failed-after-end");
    const leave = (fail: () => void) => void setTimeout(fail, 20);
    const alone = defineTask({
      name: unique("late-alone"),
      run: () => leave(() => void Promise.reject(new Error("late, alone"))),
    });
    const batch = defineBatchTask({
      name: unique("late-batch"),
      batchSize: 3,
      run: async (items: readonly { input: number }[]) => {
        leave(() => {
          throw new Error("late, in a batch");
        });
        return items.map(({ input }) => input);
      },
    });
    await using _worker = await disposable(working([alone, batch]));
    const id = await everbeat.enqueue(alone, undefined);
    await everbeat.result(id);
    await eventually(() => late.length === 1);
    const ids = await everbeat.enqueueMany(batch, [1, 2, 3]);
    expect(await Promise.all(ids.map((each) => everbeat.result(each)))).toEqual([1, 2, 3]);
    await eventually(() => late.length === 2);
    expect(late).toMatchObject([
      { taskId: id, attempt: 1, reason: "late, alone" },
      { name: batch.name, reason: "late, in a batch" },
    ]);
    expect((await everbeat.tasks.show(id)).state).toBe("completed");
  });

  test("can snooze: it runs again later, and nothing is spent", async () => {
    const task = defineTask({
      name: unique("snoozer"),
      run: (_input: unknown, { task: { attempt, failures }, snooze }: TaskContext) =>
        attempt === 1 ? snooze("5ms") : { attempt, failures },
    });
    await using _worker = await disposable(working([task]));
    const id = await everbeat.enqueue(task, 1);
    expect(await everbeat.result(id)).toEqual({ attempt: 2, failures: 0 });
    expect((await everbeat.tasks.show(id)).attempts[0]?.outcome).toBe("snoozed");
  });

  test("gets an input that was checked again where it runs; one that does not fit fails, once", async () => {
    const task = defineTask({
      name: unique("strict"),
      input: z.object({ at: z.coerce.date() }),
      retry: { attempts: 5 },
      run: ({ at }) => at instanceof Date,
    });
    await using _worker = await disposable(working([task]));
    expect(await everbeat.result(await everbeat.enqueue(task, { at: "2026-01-01" }))).toBe(true);
    const [row] = await database.query<{ id: string }>('select everbeat.enqueue($1, \'{"at": "nonsense"}\') as id', [
      task.name,
    ]);
    await expect(everbeat.result(row?.id as string)).rejects.toMatchObject({ code: "INVALID_INPUT" });
    expect((await everbeat.tasks.show(row?.id as string)).attempts).toHaveLength(1);
  });

  test.each([
    ["a BigInt", () => 1n],
    ["a Map", () => new Map()],
    ["too much", () => "x".repeat(1_100_000)],
  ])("whose result is %s fails with that reason, and the worker goes on", async (_what, result) => {
    const task = defineTask({ name: unique("unstorable"), retry: { attempts: 5 }, run: result as () => unknown });
    const fine = defineTask({ name: unique("fine"), run: () => "fine" });
    await using _worker = await disposable(working([task, fine]));
    await expect(everbeat.result(await everbeat.enqueue(task, undefined))).rejects.toMatchObject({
      code: "RESULT_NOT_STORABLE",
    });
    expect(await everbeat.result(await everbeat.enqueue(fine, undefined))).toBe("fine");
  });

  test("may return anything JSON can say, to the letter", async () => {
    const odd = { zero: "\u0000", lone: "\ud800", quote: '"\\', nothing: null };
    const task = defineTask({ name: unique("odd"), run: () => odd });
    await using _worker = await disposable(working([task]));
    expect(await everbeat.result(await everbeat.enqueue(task, undefined))).toEqual(odd);
  });

  test("can log, with its task's name and id on every line", async () => {
    const lines: unknown[] = [];
    const log = (fields: object, message: string) => lines.push({ ...fields, message });
    const { everbeat: logging } = await openTestEverbeat({
      log: { debug: () => {}, info: log, warn: log, error: log },
    });
    const task = defineTask({
      name: "talker",
      run: (_input: unknown, context: TaskContext) => context.log.info({ extra: 1 }, "hello"),
    });
    const worker = await logging.work([task], { handleSignals: false });
    const id = await logging.enqueue(task, 1);
    await logging.result(id);
    await worker.stop();
    expect(lines).toContainEqual({ task: "talker", taskId: id, attempt: 1, extra: 1, message: "hello" });
  });

  test("completes its task in its own transaction, and the worker recognises it", async () => {
    const task = defineTask({
      name: unique("transactional"),
      run: async (_input: unknown, { claim }: TaskContext) => {
        await everbeat.database.transaction(async (tx) =>
          claim.completeIn({ query: (text, values) => tx.query(text, values) }, "from the transaction"),
        );
        return "ignored";
      },
    });
    const ended = record("task.ended");
    await using _worker = await disposable(working([task]));
    const id = await everbeat.enqueue(task, 1);
    expect(await everbeat.result(id)).toBe("from the transaction");
    await eventually(() => ended.find((event) => (event as { taskId: string }).taskId === id));
    expect(ended).toContainEqual(expect.objectContaining({ taskId: id, outcome: "completed", willRunAgain: false }));
  });

  test("whose own transaction did not commit has not completed", async () => {
    const task = defineTask({
      name: unique("rolled-back"),
      run: async (_input: unknown, { claim }: TaskContext) => {
        await everbeat.database
          .transaction(async (tx) => {
            await claim.completeIn({ query: (text, values) => tx.query(text, values) }, 1);
            throw new Error("no");
          })
          .catch(() => {});
      },
    });
    await using _worker = await disposable(working([task]));
    await expect(everbeat.result(await everbeat.enqueue(task, 1))).rejects.toMatchObject({
      code: "COMPLETION_NOT_COMMITTED",
    });
  });

  test("that throws out of its own transaction after completing in it is judged by what it threw", async () => {
    const task = defineTask({
      name: unique("thrown-out"),
      retry: { attempts: 3, unless: ["E_BAD"] },
      run: (_input: unknown, { claim }: TaskContext) =>
        everbeat.database.transaction(async (tx) => {
          await claim.completeIn(tx, 1);
          throw Object.assign(new Error("the address is bad"), { code: "E_BAD" });
        }),
    });
    await using _worker = await disposable(working([task]));
    const id = await everbeat.enqueue(task, 1);
    await expect(everbeat.result(id)).rejects.toThrow("the address is bad");
    const { attempts } = await everbeat.tasks.show(id);
    expect(attempts).toMatchObject([{ outcome: "failed", error: { code: "E_BAD", message: "the address is bad" } }]);
  });

  test("that throws after its own transaction has committed has completed all the same", async () => {
    const task = defineTask({
      name: unique("thrown-after"),
      run: async (_input: unknown, { claim }: TaskContext) => {
        await everbeat.database.transaction((tx) => claim.completeIn(tx, "committed"));
        throw new Error("too late to matter");
      },
    });
    const ended = record("task.ended");
    await using _worker = await disposable(working([task]));
    const id = await everbeat.enqueue(task, 1);
    expect(await everbeat.result(id)).toBe("committed");
    await eventually(() => ended.find((event) => (event as { taskId: string }).taskId === id));
    expect(ended).toContainEqual(expect.objectContaining({ taskId: id, outcome: "completed", willRunAgain: false }));
    expect((await everbeat.tasks.show(id)).attempts).toMatchObject([{ outcome: "completed" }]);
  });
});

describe("a batch task", () => {
  test("gets several inputs at once, and each has its own outcome", async () => {
    const sizes: number[] = [];
    const task = defineBatchTask({
      name: unique("batch"),
      input: z.object({ n: z.number() }),
      batchSize: 4,
      async run(items) {
        sizes.push(items.length);
        return items.map(({ input }) => (input.n === 3 ? new Error("three is wrong") : input.n * 10));
      },
    });
    const ids = await everbeat.enqueueMany(
      task,
      [1, 2, 3, 4, 5].map((n) => ({ n })),
    );
    await using _worker = await disposable(working([task], { concurrency: 1 }));
    const results = await Promise.allSettled(ids.map((id) => everbeat.result(id)));
    expect(
      results.map((result) => (result.status === "fulfilled" ? result.value : result.reason.error.message)),
    ).toEqual([10, 20, "three is wrong", 40, 50]);
    expect(Math.max(...sizes)).toBe(4);
  });

  test("that throws, or returns too few, fails them all; an input that does not fit fails alone", async () => {
    const task = defineBatchTask({ name: unique("short"), input: z.number(), batchSize: 3, run: async () => [1] });
    await everbeat.queues.pause(task.name);
    const ids = await everbeat.enqueueMany(task, [1, 2], { options: { queue: task.name } });
    const [bad] = await database.query<{ id: string }>(
      "select everbeat.enqueue($1, '\"text\"', json_build_object('queue', $1::text)::jsonb) as id",
      [task.name],
    );
    await using _worker = await disposable(working([task]));
    await everbeat.queues.resume(task.name);
    for (const id of ids) await expect(everbeat.result(id)).rejects.toThrow(/one outcome for each of its 2 items/);
    await expect(everbeat.result(bad?.id as string)).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });
});

describe("middleware", () => {
  test("runs around every handler, outermost first, and may refuse", async () => {
    const seen: string[] = [];
    const task = defineTask({ name: unique("wrapped"), run: (input: string) => seen.push(`run ${input}`) });
    const outer = async (context: TaskContext, next: () => Promise<unknown>) => {
      seen.push(`before ${context.task.name === task.name}`);
      const result = await next();
      seen.push("after");
      return { wrapped: result };
    };
    const inner = async (context: TaskContext, next: () => Promise<unknown>) => {
      if (context.task.metadata === "forbidden") throw new Error("refused");
      return next();
    };
    await using _worker = await disposable(working([task], { middleware: [outer, inner] }));
    expect(await everbeat.result(await everbeat.enqueue(task, "a"))).toEqual({ wrapped: 2 });
    expect(seen).toEqual(["before true", "run a", "after"]);
    await expect(everbeat.result(await everbeat.enqueue(task, "b", { metadata: "forbidden" }))).rejects.toThrow(
      /refused/,
    );
    expect(seen).not.toContain("run b");
  });
});

describe("cancelling a running task", () => {
  test("reaches its handler through its signal, quickly", async () => {
    const { opened: started, open: start } = gate();
    const task = defineTask({
      name: unique("cancellable"),
      run: (_input: unknown, { signal }: TaskContext) => {
        start();
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      },
    });
    await using _worker = await disposable(working([task], { pollInterval: "10s" }));
    const id = await everbeat.enqueue(task, 1);
    await started;
    expect(await everbeat.tasks.cancel(id, { reason: "no need" })).toEqual([{ id, outcome: "cancelling" }]);
    await expect(everbeat.result(id, { timeout: "5s" })).rejects.toMatchObject({
      code: "TASK_CANCELLED",
      state: "cancelled",
      message: `Task ${id} was cancelled: no need`,
    });
  });

  test("that ignores it ends after the grace all the same", async () => {
    const task = defineTask({ name: unique("stubborn"), run: () => new Promise(() => {}) });
    await using _worker = await disposable(working([task], { abortGrace: 50 }));
    const id = await everbeat.enqueue(task, undefined);
    await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
    await everbeat.tasks.cancel(id);
    await expect(everbeat.result(id, { timeout: "5s" })).rejects.toMatchObject({ state: "cancelled" });
  });
});

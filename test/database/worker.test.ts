import { randomUUID } from "node:crypto";
import { describe, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import type { EventName } from "../../src/events.ts";
import type { TaskContext } from "../../src/task/context.ts";
import { type AnyTask, defineBatchTask, defineTask } from "../../src/task/define-task.ts";
import { ResultTimeoutError, TaskEndedError } from "../../src/task/errors.ts";
import type { WorkOptions } from "../../src/worker/options.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat, database } = await openTestEverbeat();
let serial = 0;

/** Defines tasks with names of the test's own, works on them, and stops when the test ends. */
async function working<T extends AnyTask>(tasks: readonly T[], options: WorkOptions = {}) {
  return everbeat.work(tasks, { handleSignals: false, pollInterval: 200, ...options });
}
const unique = (name: string) => `${name}-${++serial}`;
const record = <N extends EventName>(name: N) => {
  const seen: unknown[] = [];
  everbeat.on(name, (event) => seen.push(event));
  return seen;
};
/** A promise and the function that settles it. */
const gate = () => {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
};

describe("results", () => {
  test("are typed, and come as soon as the task has ended", async () => {
    const task = defineTask({
      name: unique("double"),
      input: z.object({ n: z.number() }),
      run: ({ n }) => ({ twice: n * 2 }),
    });
    await using _worker = await disposable(working([task]));
    const result = await everbeat.result(await everbeat.enqueue(task, { n: 21 }));
    expectTypeOf(result).toEqualTypeOf<{ twice: number }>();
    expect(result).toEqual({ twice: 42 });
  });

  test("are told by notification: a waiter does not depend on its own looking", async () => {
    const { opened, open } = gate();
    const task = defineTask({ name: unique("slow"), run: () => opened.then(() => "done") });
    await using _worker = await disposable(working([task]));
    const id = await everbeat.enqueue(task, undefined);
    const waiting = everbeat.result(id);
    // Its own looks are frequent at first; wait until they come once a second.
    await eventually(async () => {
      const text = "select from everbeat.waiter where task_id = $1 and since < now() - interval '1.4 s'";
      return (await database.query(text, [id])).length === 1;
    });
    open();
    const openedAt = performance.now();
    expect(await waiting).toBe("done");
    expect(performance.now() - openedAt).toBeLessThan(600);
    await eventually(
      async () => (await database.query("select from everbeat.waiter where task_id = $1", [id])).length === 0,
    );
  });

  test("are never waited for a second because a task ended in the moment in which one began to wait", async () => {
    const task = defineTask({ name: unique("quick"), run: () => null });
    await using _worker = await disposable(working([task]));
    const times: number[] = [];
    for (let n = 0; n < 150; n++) {
      const startedAt = performance.now();
      await everbeat.result(await everbeat.enqueue(task));
      times.push(performance.now() - startedAt);
    }
    expect(Math.max(...times)).toBeLessThan(900);
  });

  test("can be waited for by thousands at once, and the work goes on", async () => {
    const task = defineTask({ name: unique("crowd"), run: (n: number) => n });
    await using _worker = await disposable(working([task], { concurrency: 50 }));
    const ids = await everbeat.enqueueMany(
      task,
      Array.from({ length: 3_000 }, (_, n) => n),
    );
    expect(await Promise.all(ids.map((id) => everbeat.result(id)))).toEqual(ids.map((_, n) => n));
  });

  test("of failures arrive as typed errors", async () => {
    const task = defineTask({
      name: unique("broken"),
      run: () => {
        throw Object.assign(new TypeError("no good"), { code: "E_NO_GOOD" });
      },
    });
    await using _worker = await disposable(working([task]));
    const failing = everbeat.result(await everbeat.enqueue(task, undefined));
    await expect(failing).rejects.toBeInstanceOf(TaskEndedError);
    await expect(failing).rejects.toMatchObject({
      code: "E_NO_GOOD",
      state: "failed",
      error: { name: "TypeError", message: "no good", stack: expect.stringContaining("worker.test") },
    });
  });

  test("that take too long say so, and the task goes on", async () => {
    const task = defineTask({ name: unique("never"), run: () => null });
    const id = await everbeat.enqueue(task, undefined);
    await expect(everbeat.result(id, { timeout: 50 })).rejects.toBeInstanceOf(ResultTimeoutError);
    expect((await everbeat.tasks.show(id)).state).toBe("pending");
    await expect(everbeat.result(randomUUID())).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
    await expect(everbeat.result(id, { timeout: "soon" } as never)).rejects.toThrow(/timeout: must be a duration/);
    const leaving = new AbortController();
    const aborted = everbeat.result(id, { signal: leaving.signal });
    leaving.abort(new Error("left"));
    await expect(aborted).rejects.toThrow("left");
  });
});

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

describe("a worker", () => {
  test("keeps to its concurrency, in all and for each queue", async () => {
    const queues = { [unique("wide")]: {}, [unique("narrow")]: { concurrency: 2 } };
    const [wide, narrow] = Object.keys(queues) as [string, string];
    const now = { [wide]: 0, [narrow]: 0 };
    const most = { all: 0, narrow: 0 };
    const task = defineTask({
      name: unique("counted"),
      run: async (_input: unknown, { task: { queue } }: TaskContext) => {
        now[queue] = (now[queue] ?? 0) + 1;
        most.all = Math.max(most.all, (now[wide] ?? 0) + (now[narrow] ?? 0));
        most.narrow = Math.max(most.narrow, now[narrow] ?? 0);
        await new Promise((resume) => setTimeout(resume, 15));
        now[queue] = (now[queue] ?? 0) - 1;
      },
    });
    const ids = await everbeat.enqueueMany(
      task,
      Array.from({ length: 40 }, (_, n) => n),
      { options: (n) => ({ queue: (n as number) % 2 ? wide : narrow }) },
    );
    await using _worker = await disposable(working([task], { concurrency: 5, queues, prefetch: 10 }));
    await Promise.all(ids.map((id) => everbeat.result(id)));
    expect(most.all).toBe(5);
    expect(most.narrow).toBe(2);
  });

  test("runs a delayed task when it is due, not a poll later", async () => {
    const task = defineTask({ name: unique("delayed"), run: (_input: unknown, _context: TaskContext) => Date.now() });
    await using _worker = await disposable(working([task], { pollInterval: "20s" }));
    const askedAt = Date.now();
    const ranAt = await everbeat.result(await everbeat.enqueue(task, 1, { delay: 400 }));
    expect(ranAt - askedAt).toBeGreaterThanOrEqual(390);
    expect(ranAt - askedAt).toBeLessThan(2_500);
  });

  test("claims ahead and starts what it claimed; what it cannot start it gives back", async () => {
    const { opened, open } = gate();
    const task = defineTask({ name: unique("held"), run: () => opened });
    const ids = await everbeat.enqueueMany(task, [undefined, undefined, undefined]);
    await using _worker = await disposable(working([task], { concurrency: 1, prefetch: 2 }));
    await eventually(async () => (await everbeat.tasks.show(ids[2] as string)).state === "claimed");
    // Given back after two seconds without a slot; and no sooner taken again than there is one.
    await eventually(async () => (await everbeat.tasks.show(ids[2] as string)).state === "pending");
    open();
    await Promise.all(ids.map((id) => everbeat.result(id)));
    expect((await everbeat.tasks.show(ids[2] as string)).attempts.at(-1)).toMatchObject({
      attempt: 1,
      outcome: "completed",
    });
  });

  test("that stops gives back what it claimed ahead, lets what runs end, and is offline", async () => {
    const { opened, open } = gate();
    const task = defineTask({ name: unique("leaving"), run: () => opened.then(() => "ended in time") });
    const ids = await everbeat.enqueueMany(task, [undefined, undefined]);
    const worker = await working([task], { concurrency: 1, prefetch: 1 });
    await eventually(async () => (await everbeat.tasks.show(ids[1] as string)).state === "claimed");
    const stopped = worker.stop();
    await eventually(async () => (await everbeat.tasks.show(ids[1] as string)).state === "pending");
    expect((await everbeat.replicas()).find((replica) => replica.id === worker.replicaId)?.status).toBe("draining");
    open();
    await stopped;
    expect(await everbeat.tasks.show(ids[0] as string)).toMatchObject({ state: "completed", result: "ended in time" });
    expect(await everbeat.tasks.show(ids[1] as string)).toMatchObject({ state: "pending", attempt: 0 });
    expect((await everbeat.replicas()).find((replica) => replica.id === worker.replicaId)?.status).toBe("offline");
  });

  test("that stops aborts what does not end in time; it is pending again and nothing is spent", async () => {
    const task = defineTask({
      name: unique("cut-short"),
      run: (_input: unknown, { signal }: TaskContext) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    });
    const id = await everbeat.enqueue(task, 1);
    const worker = await working([task], { shutdownGrace: 20 });
    await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
    await worker.stop();
    expect(await everbeat.tasks.show(id)).toMatchObject({
      state: "pending",
      failures: 0,
      attempts: [{ outcome: "aborted", error: { code: "WORKER_STOPPING" } }],
    });
  });

  test("whose task is taken away learns of it: the signal fires, the outcome is refused, an event says so", async () => {
    const lost = record("claim.lost");
    const { opened: told, open: tell } = gate();
    const task = defineTask({
      name: unique("robbed"),
      run: async (_input: unknown, { signal, task: { attempt } }: TaskContext) => {
        if (attempt > 1) return "second";
        await new Promise<void>((resume) => signal.addEventListener("abort", () => resume()));
        tell();
        return "first";
      },
    });
    await using _worker = await disposable(working([task], { pollInterval: "10s" }));
    const id = await everbeat.enqueue(task, 1);
    await eventually(async () => (await everbeat.tasks.show(id)).state === "running");
    await everbeat.tasks.retry(id, { force: true });
    await told;
    expect(await everbeat.result(id)).toBe("second");
    await eventually(async () => (await everbeat.tasks.show(id)).late.length === 1);
    expect(lost).toContainEqual(expect.objectContaining({ taskId: id }));
  });

  test("saves its definitions for those who have not got its code", async () => {
    const task = defineTask({
      name: unique("defined"),
      queue: "somewhere",
      priority: 3,
      onCrash: "retry",
      timeout: "1m",
      run: () => null,
    });
    await using _worker = await disposable(working([task]));
    const [row] = await database.query<{ settings: unknown }>(
      "select settings from everbeat.definition where name = $1",
      [task.name],
    );
    expect(row?.settings).toMatchObject({ queue: "somewhere", priority: 3, onCrash: "retry", timeoutMs: 60_000 });
    expect((await everbeat.replicas()).at(-1)).toMatchObject({
      status: "online",
      tasks: [task.name],
      pid: process.pid,
    });
  });

  test("survives a listener of its events that throws", async () => {
    const off = everbeat.on("task.started", () => {
      throw new Error("bad listener");
    });
    const task = defineTask({ name: unique("listened"), run: () => "fine" });
    await using _worker = await disposable(working([task]));
    expect(await everbeat.result(await everbeat.enqueue(task, undefined))).toBe("fine");
    off();
  });
});

/** A worker that is stopped when the test's block ends. */
async function disposable(starting: ReturnType<typeof working>) {
  const worker = await starting;
  return { worker, [Symbol.asyncDispose]: () => worker.stop({ now: true }) };
}

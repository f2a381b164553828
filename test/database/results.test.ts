import { randomUUID } from "node:crypto";
import { getEventListeners } from "node:events";
import { describe, expect, expectTypeOf, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import { defineTask } from "../../src/task/define-task.ts";
import { ResultTimeoutError, TaskEndedError } from "../../src/task/errors.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { gate, unique, workingOn } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const { working, disposable } = workingOn(everbeat);

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

  test("are told by notification: a waiter does not depend on its own looking", { timeout: 120_000 }, async () => {
    const opening = async () => {
      const { opened, open } = gate();
      const task = defineTask({ name: unique("slow"), run: () => opened.then(() => "done") });
      await using _worker = await disposable(working([task]));
      const id = await everbeat.enqueue(task, undefined);
      const waiting = everbeat.result(id);
      // Its own looks are frequent at first; wait until they come once a second. The next is then about 800 ms away.
      await eventually(async () => {
        const text = "select from everbeat.waiter where task_id = $1 and since < now() - interval '1.4 s'";
        return (await database.query(text, [id])).length === 1;
      });
      open();
      const openedAt = performance.now();
      expect(await waiting).toBe("done");
      const tookMs = performance.now() - openedAt;
      await eventually(
        async () => (await database.query("select from everbeat.waiter where task_id = $1", [id])).length === 0,
      );
      return tookMs;
    };
    // Also on a machine that has other work, one of five is as quick as that.
    const took: number[] = [];
    while (took.length < 5 && Math.min(...took) >= 700) took.push(await opening());
    expect(Math.min(...took)).toBeLessThan(700);
  });

  test("are never waited for a second because a task ended in the moment in which one began to wait", {
    timeout: 120_000,
  }, async () => {
    const task = defineTask({ name: unique("quick"), run: () => null });
    await using _worker = await disposable(working([task]));
    const resolvedAt = new Map<string, number>();
    const until = performance.now() + 40_000;
    while (resolvedAt.size < 200 && performance.now() < until) {
      const id = await everbeat.enqueue(task);
      await everbeat.result(id);
      resolvedAt.set(id, Date.now());
    }
    const ended = await database.query<{ id: string; at: Date }>(
      "select task_id::text as id, ended_at as at from everbeat.ended where task_id = any ($1::uuid[])",
      [[...resolvedAt.keys()]],
    );
    const waits = ended.map(({ id, at }) => (resolvedAt.get(id) ?? Number.NaN) - at.getTime());
    expect(waits).toHaveLength(resolvedAt.size);
    // Without its first looks it would be one in ten. Now and then a machine that has other work takes a second for anything.
    expect(waits.filter((ms) => !(ms < 900)).length).toBeLessThanOrEqual(1 + waits.length / 40);
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
      error: { name: "TypeError", message: "no good", stack: expect.stringContaining("results.test") },
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

  test("with a signal of the caller's leaves nothing behind on it, however often it looks", async () => {
    const joined = vi.spyOn(AbortSignal, "any");
    onTestFinished(() => joined.mockRestore());
    const { signal } = new AbortController();
    const id = await everbeat.enqueue(defineTask({ name: "nobody-runs", run: () => null }));
    await expect(everbeat.result(id, { signal, timeout: "200ms" })).rejects.toMatchObject({ code: "RESULT_TIMEOUT" });
    // A signal made of others stays in the memory of each of them for as long as that one lives.
    expect(joined).not.toHaveBeenCalled();
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });
});

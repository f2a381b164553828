/** One task per key: kept, replaced, refused, for as long as the key counts. */
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { DuplicateTaskError } from "../../src/task/errors.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const plain = defineTask({ name: "plain", run: (_input: unknown) => null });
const count = async () =>
  Number((await database.query<{ n: string }>("select count(*) as n from everbeat.task"))[0]?.n);

/** Enqueues in a queue of the test's own, so that what others enqueue does not matter. */
const inQueue = () => ({ queue: `q-${randomUUID()}` });

describe("a unique key", () => {
  const unique = (key: string) => ({ uniqueKey: key, ...inQueue() });

  test("keeps the task that is there and returns its id", async () => {
    const options = unique("keep");
    const first = await everbeat.enqueue(plain, 1, options);
    expect(await everbeat.enqueue(plain, 2, options)).toBe(first);
    expect((await everbeat.tasks.show(first)).input).toBe(1);
  });

  test("is kept among concurrent callers, and within one batch", async () => {
    const options = unique("race");
    const ids = await Promise.all(Array.from({ length: 40 }, (_, n) => everbeat.enqueue(plain, n, options)));
    expect(new Set(ids).size).toBe(1);
    const many = await everbeat.enqueueMany(plain, [1, 2, 3], { options: unique("batch") });
    expect(new Set(many).size).toBe(1);
  });

  test("belongs to a task name: another task may have the same", async () => {
    const other = defineTask({ name: "other", run: (_input: unknown) => null });
    const options = unique("per-name");
    expect(await everbeat.enqueue(other, 1, options)).not.toBe(await everbeat.enqueue(plain, 1, options));
  });

  test("replaces a pending task's input, time and place, under the same id", async () => {
    const options = unique("replace");
    const first = await everbeat.enqueue(plain, "old", { ...options, delay: "1h" });
    const second = await everbeat.enqueue(plain, "new \u0000", { ...options, onDuplicate: "replace", priority: -3 });
    expect(second).toBe(first);
    expect(await everbeat.tasks.show(first)).toMatchObject({ input: "new \u0000", priority: -3, state: "pending" });
    expect(
      (await handClaimer(everbeat.database, ["plain"]).claim({ queues: [options.queue], room: [null] })).map(
        (task) => task.taskId,
      ),
    ).toEqual([first]);
  });

  test("lets a running task go on and enqueues the replacement beside it", async () => {
    const options = unique("replace-running");
    const first = await everbeat.enqueue(plain, "old", options);
    await handClaimer(everbeat.database, ["plain"]).claim({ queues: [options.queue], room: [null] });
    const second = await everbeat.enqueue(plain, "new", { ...options, onDuplicate: "replace" });
    expect(second).not.toBe(first);
    expect((await everbeat.tasks.show(first)).state).toBe("running");
    expect(await everbeat.enqueue(plain, "third", options)).toBe(second);
  });

  test("refuses, and says who holds it", async () => {
    const options = unique("refuse");
    const first = await everbeat.enqueue(plain, 1, options);
    const refused = everbeat.enqueue(plain, 2, { ...options, onDuplicate: "refuse" });
    await expect(refused).rejects.toBeInstanceOf(DuplicateTaskError);
    await expect(refused).rejects.toMatchObject({ holder: first, uniqueKey: "refuse" });
    const before = await count();
    const many = everbeat.enqueueMany(plain, [1, 2], {
      options: (n) => (n === 1 ? {} : { ...options, onDuplicate: "refuse" }),
    });
    await expect(many).rejects.toBeInstanceOf(DuplicateTaskError);
    expect(await count()).toBe(before);
  });

  test("does not fail callers who share a batch with one that is refused", async () => {
    const options = unique("shared-batch");
    await everbeat.enqueue(plain, 1, options);
    const [kept, refused] = await Promise.allSettled([
      everbeat.enqueue(plain, 1),
      everbeat.enqueue(plain, 1, { ...options, onDuplicate: "refuse" }),
    ]);
    expect(kept.status).toBe("fulfilled");
    expect(refused.status).toBe("rejected");
  });

  test("counts only in the states it is meant to", async () => {
    const options = unique("states");
    const claimer = handClaimer(everbeat.database, ["plain"]);
    const first = await everbeat.enqueue(plain, 1, options);
    const [task] = await claimer.claim({ queues: [options.queue], room: [null] });
    expect(await everbeat.enqueue(plain, 1, options)).toBe(first);
    const second = await everbeat.enqueue(plain, 1, { ...options, uniqueOver: ["pending"] });
    expect(second).not.toBe(first);
    await claimer.complete(task as never);
    expect(await everbeat.enqueue(plain, 1, options)).toBe(second);
    await everbeat.tasks.cancel(second);
    expect(await everbeat.enqueue(plain, 1, { ...options, uniqueOver: ["pending", "cancelled"] })).toBe(second);
    expect(await everbeat.enqueue(plain, 1, options)).not.toBe(second);
  });

  test("counts only for as long as it is meant to", async () => {
    const options = { ...unique("window"), uniqueOver: ["pending", "completed"], uniqueFor: "1h" } as const;
    const first = await everbeat.enqueue(plain, 1, { ...options, uniqueOver: [...options.uniqueOver] });
    const again = () => everbeat.enqueue(plain, 1, { ...options, uniqueOver: [...options.uniqueOver] });
    expect(await again()).toBe(first);
    await database.query("update everbeat.task set created_at = created_at - interval '59 minutes' where id = $1", [
      first,
    ]);
    expect(await again()).toBe(first);
    await database.query("update everbeat.task set created_at = created_at - interval '2 minutes' where id = $1", [
      first,
    ]);
    expect(await again()).not.toBe(first);
  });

  test("debounces: the last call's input runs, once nobody has called for the time", async () => {
    const options = { ...unique("debounce"), debounce: "1h" } as const;
    const first = await everbeat.enqueue(plain, "a", options);
    expect(await everbeat.enqueue(plain, "b", options)).toBe(first);
    const task = await everbeat.tasks.show(first);
    expect(task.input).toBe("b");
    const [row] = await database.query<{ wait: number }>(
      "select extract(epoch from run_at - now())::float8 as wait from everbeat.ready where task_id = $1",
      [first],
    );
    expect(row?.wait).toBeGreaterThan(3_590);
  });
});

/** The record of tasks: looked up in pages, and removed when it is old. */
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { purgeIfDue } from "../../src/sql/upkeep.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const claimer = handClaimer(everbeat.database, ["noop"]);
const running = async (options = {}) => {
  const queue = `q-${randomUUID()}`;
  await everbeat.enqueue(noop, 1, { queue, ...options });
  const [task] = await claimer.claim({ queues: [queue], room: [null] });
  if (!task) throw new Error("nothing was claimed");
  return task;
};
const purgedLongAgo = () => database.query("update everbeat.upkeep set purged_at = '-infinity'");
const purge = (retention = {}) =>
  purgeIfDue(everbeat.database, { maxAgeMs: undefined, maxCount: undefined, ...retention }, 100);

describe("looking tasks up", () => {
  test("pages through all that fit, newest first, without a gap while more come in", async () => {
    const queue = `q-${randomUUID()}`;
    const ids = await everbeat.enqueueMany(
      noop,
      Array.from({ length: 25 }, (_, n) => n),
      { options: { queue } },
    );
    const seen: string[] = [];
    let before: string | undefined;
    do {
      const page = await everbeat.tasks.list({ queue, limit: 10, ...(before ? { before } : {}) });
      seen.push(...page.tasks.map((task) => task.id));
      before = page.next;
      await everbeat.enqueue(noop, "new", { queue });
    } while (before);
    expect(seen).toEqual([...ids].reverse());
  });

  test.each([
    [{ state: "lost" }],
    [{ limit: 0 }],
    [{ befor: "x" }],
    [{ before: "not an id" }],
    [{ createdAfter: "yesterday-ish" }],
  ])("refuses %j", async (query) => {
    await expect(everbeat.tasks.list(query as never)).rejects.toThrow(/cannot be used as given/);
  });

  test("by an id that is none says so", async () => {
    await expect(everbeat.tasks.show("7")).rejects.toThrow(/is a UUID/);
    await expect(everbeat.tasks.show(randomUUID())).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
  });
});

describe("retention", () => {
  test("removes ended tasks by age, with everything that belongs to them, and nothing else", async () => {
    const [old, young, alive] = [await running({ uniqueKey: "gone" }), await running(), await running()];
    await claimer.complete(old);
    await claimer.complete(old, '"late"');
    await claimer.complete(young);
    await database.query("update everbeat.ended set ended_at = now() - interval '2 hours' where task_id = $1", [
      old.taskId,
    ]);
    expect(await purge({ maxAgeMs: 3_600_000 })).toBe(1);
    await expect(everbeat.tasks.show(old.taskId)).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
    for (const table of ["late", "attempt", "unique_hold"])
      expect(await database.query(`select from everbeat.${table} where task_id = $1`, [old.taskId])).toEqual([]);
    expect((await everbeat.tasks.show(young.taskId)).state).toBe("completed");
    expect((await everbeat.tasks.show(alive.taskId)).state).toBe("running");
  });

  test("keeps no more than so many, the newest, and works in small batches", async () => {
    const ended: string[] = [];
    for (let task = 0; task < 8; task++) {
      const claimed = await running();
      await claimer.complete(claimed);
      ended.push(claimed.taskId);
    }
    await purgedLongAgo();
    const removed: number[] = [];
    do removed.push(await purgeIfDue(everbeat.database, { maxAgeMs: undefined, maxCount: 3 }, 2));
    while (removed.at(-1) !== 0);
    expect(Math.max(...removed)).toBe(2);
    const left = await database.query<{ id: string }>(
      "select task_id::text as id from everbeat.ended order by ended_at",
    );
    expect(left.map(({ id }) => id)).toEqual(ended.slice(-3));
  });

  test("by number keeps those that ended last, whatever ids their callers chose, and also within one moment", async () => {
    await database.query("delete from everbeat.ended");
    const chosen = [9, 1, 8, 2, 7, 3].map((digit) => `${digit}0000000-0000-4000-8000-${randomUUID().slice(24)}`);
    for (const id of chosen) await claimer.complete(await running({ id }));
    await purgedLongAgo();
    expect(await purge({ maxCount: 4 })).toBe(2);
    const left = async () =>
      (await database.query<{ id: string }>("select task_id::text as id from everbeat.ended order by ended_at")).map(
        ({ id }) => id,
      );
    expect(await left()).toEqual(chosen.slice(2));
    await database.query("update everbeat.ended set ended_at = now()");
    await purgedLongAgo();
    expect(await purge({ maxCount: 1 })).toBe(3);
    expect(await left()).toHaveLength(1);
  });

  test("searches the record once a minute, whoever does it, and again at once where more than a batch was too old", async () => {
    await purgedLongAgo();
    const retention = { maxAgeMs: 3_600_000, maxCount: undefined };
    const age = (id: string) =>
      database.query("update everbeat.ended set ended_at = now() - interval '2 hours' where task_id = $1", [id]);
    for (let task = 0; task < 3; task++) {
      const claimed = await running();
      await claimer.complete(claimed);
      await age(claimed.taskId);
    }
    const purged = () => purgeIfDue(everbeat.database, retention, 2);
    expect([await purged(), await purged()]).toEqual([2, 1]);

    const another = await running();
    await claimer.complete(another);
    await age(another.taskId);
    expect(await purged()).toBe(0);
    await database.query("update everbeat.upkeep set purged_at = purged_at - interval '1 minute'");
    expect(await purged()).toBe(1);

    // The clock of the server was set back, or another one has taken over.
    const last = await running();
    await claimer.complete(last);
    await age(last.taskId);
    await database.query("update everbeat.upkeep set purged_at = now() + interval '1 hour'");
    expect(await purged()).toBe(1);
  });

  test("is that of the strictest, however often the others have searched", async () => {
    await purgedLongAgo();
    const claimed = await running();
    await claimer.complete(claimed);
    await database.query("update everbeat.ended set ended_at = now() - interval '2 hours' where task_id = $1", [
      claimed.taskId,
    ]);
    expect(await purge({ maxAgeMs: 86_400_000 })).toBe(0);
    expect(await purge({ maxAgeMs: 3_600_000 })).toBe(1);
  });
});

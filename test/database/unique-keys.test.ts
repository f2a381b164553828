/** One task per key: kept, replaced, refused, for as long as the key counts. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { Events } from "../../src/events.ts";
import { PassedBy } from "../../src/recovery/passed-by.ts";
import { purgeIfDue } from "../../src/sql/upkeep.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { DuplicateTaskError } from "../../src/task/errors.ts";
import { purgeRecord } from "../../src/upkeep/purge-record.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

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

describe("a unique key whose task is purged", () => {
  const claimer = handClaimer(everbeat.database, ["plain"]);
  type Keyed = {
    queue: string;
    uniqueKey: string;
    uniqueOver?: ("pending" | "completed")[];
    uniqueFor?: string | number;
  };

  /** A task that was made so long ago, and completed at once. */
  async function endedTask(options: Keyed, hoursAgo: number): Promise<string> {
    const id = await everbeat.enqueue(plain, 1, options as never);
    const [task] = await claimer.claim({ queues: [options.queue], room: [null] });
    await claimer.complete(task as never);
    const ago = `${hoursAgo} hours`;
    await database.query("update everbeat.task set created_at = now() - $2::interval where id = $1", [id, ago]);
    await database.query("update everbeat.ended set ended_at = now() - $2::interval where task_id = $1", [id, ago]);
    return id;
  }
  async function purge(): Promise<number> {
    await database.query("update everbeat.upkeep set purged_at = '-infinity'");
    return purgeIfDue(everbeat.database, { maxAgeMs: 3_600_000, maxCount: undefined }, 100);
  }
  /** As a sweep does it. */
  async function purgeKeys(): Promise<void> {
    const onError = (error: unknown) => {
      throw error;
    };
    const parts = { database: everbeat.database, events: new Events(onError), onError };
    const ages = { historyAgeMs: 3_600_000, purgeAgeMs: 3_600_000, postMortemAgeMs: 3_600_000 };
    await purgeRecord(everbeat.database, ages, new PassedBy({ service: "sweep", part: "purges" }, parts));
  }
  const holds = (uniqueKey: string) =>
    database.query<{ task: string }>("select task_id::text as task from everbeat.unique_hold where key = $1", [
      uniqueKey,
    ]);

  test("at the very moment in which another is put in is that one's", async () => {
    const options = { ...inQueue(), uniqueKey: "purged-meanwhile" };
    const old = await endedTask(options, 2);
    const purger = new pg.Client(database.url);
    await purger.connect();
    onTestFinished(() => purger.end());
    const { rows } = await purger.query("select pg_backend_pid() as pid");
    await purger.query("begin");
    // As the purge locks it before it deletes it: whoever puts one in now finds the key taken, and waits for the row.
    await purger.query("select from everbeat.unique_hold where key = $1 for update", [options.uniqueKey]);
    const next = everbeat.enqueue(plain, 2, options);
    await eventually(
      async () =>
        (await database.query("select from pg_stat_activity where $1 = any (pg_blocking_pids(pid))", [rows[0].pid]))
          .length === 1,
    );
    await purger.query("select everbeat.purge_ended(3600000, null, 100)");
    await purger.query("commit");
    const id = await next;
    expect(id).not.toBe(old);
    expect(await holds(options.uniqueKey)).toEqual([{ task: id }]);
    expect(await everbeat.enqueue(plain, 3, options)).toBe(id);
  });

  test("is not purged while somebody decides over its key, and leaves no key behind", async () => {
    const options = { ...inQueue(), uniqueKey: "held-while-purging" };
    const old = await endedTask(options, 2);
    const client = new pg.Client(database.url);
    await client.connect();
    onTestFinished(() => client.end());
    await client.query("begin");
    await client.query("select from everbeat.unique_hold where key = $1 for update", [options.uniqueKey]);
    expect(await purge()).toBe(0);
    await client.query("rollback");
    expect((await everbeat.tasks.show(old)).state).toBe("completed");
    expect(await purge()).toBe(1);
    expect(await holds(options.uniqueKey)).toEqual([]);
  });

  test("counts for as long as was asked, whatever retention says", async () => {
    const options: Keyed = {
      ...{ ...inQueue(), uniqueKey: "longer-than-retention" },
      ...{ uniqueOver: ["pending", "completed"], uniqueFor: "3h" },
    };
    const again = (more = {}) => everbeat.enqueue(plain, 2, { ...options, ...more } as never);
    const first = await endedTask(options, 2);
    expect(await purge()).toBe(1);
    await expect(everbeat.tasks.show(first)).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
    expect(await again()).toBe(first);
    await expect(again({ onDuplicate: "refuse" })).rejects.toMatchObject({ holder: first });
    // Who asks for less, or for another state, is judged by that.
    const other = { ...options, uniqueKey: "for-less", uniqueFor: "3h" };
    const less = await endedTask(other, 2);
    await purge();
    expect(await everbeat.enqueue(plain, 2, { ...other, uniqueFor: "1h" } as never)).not.toBe(less);

    await database.query(
      "update everbeat.unique_hold set created_at = created_at - interval '2 hours', counts_until = counts_until - interval '2 hours' where key = $1",
      [options.uniqueKey],
    );
    expect(await again()).not.toBe(first);
  });

  test("counts for as long as the last one asked who was told of it", async () => {
    const options: Keyed = { ...inQueue(), uniqueKey: "longer", uniqueOver: ["pending", "completed"], uniqueFor: "1m" };
    const longer = { ...options, uniqueFor: "1d" };
    const first = await everbeat.enqueue(plain, 1, options as never);
    expect(await everbeat.enqueue(plain, 1, longer as never)).toBe(first);
    const [task] = await claimer.claim({ queues: [options.queue], room: [null] });
    await claimer.complete(task as never);
    await database.query("update everbeat.ended set ended_at = now() - interval '2 hours' where task_id = $1", [first]);
    expect(await purge()).toBe(1);
    expect(await everbeat.enqueue(plain, 1, longer as never)).toBe(first);
  });

  test("counts for as long as was asked and leaves then, also where only the end of its task was on record", async () => {
    const options: Keyed = { ...inQueue(), uniqueKey: "lost", uniqueOver: ["completed"], uniqueFor: "3h" };
    const first = await endedTask(options, 2);
    await database.query("delete from everbeat.task where id = $1", [first]);
    expect(await purge()).toBe(1);
    expect(await everbeat.enqueue(plain, 2, options as never)).toBe(first);
    await database.query("update everbeat.unique_hold set counts_until = now() where key = 'lost'");
    await purgeKeys();
    expect(await holds("lost")).toEqual([]);
  });

  test("leaves when its time is over, also if nobody asks for it again", async () => {
    const options: Keyed = { ...inQueue(), uniqueKey: "over", uniqueOver: ["completed"], uniqueFor: "3h" };
    await endedTask(options, 2);
    expect(await purge()).toBe(1);
    expect(await holds("over")).toHaveLength(1);
    await database.query("update everbeat.unique_hold set counts_until = now() where key = 'over'");
    await purgeKeys();
    expect(await holds("over")).toEqual([]);
  });
});

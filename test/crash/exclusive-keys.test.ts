/** Exclusive keys across processes: never more at once than the key allows, and nobody waits for ever. */
import { describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { startWorker, task } from "../support/worker-process.ts";

const span = defineTask({ name: "span", run: async (_input: { ms: number }) => {} });

async function startSpanning({ url }: CrashDatabase, work: object = {}) {
  const tasks = [{ handler: "span" }, { handler: "hold" }] as const;
  return startWorker({ url, work: { pollInterval: 2_000, concurrency: 6, ...work }, tasks });
}

/** Per key, how many ran at once at the most. One that was killed counts until its task was taken away from it. */
async function mostAtOnce({ query }: CrashDatabase): Promise<Record<string, number>> {
  const rows = await query<{ key: string; most: number }>(
    `with s as (
       select t.exclusive_key as key, s.started_at, coalesce(s.ended_at, a.ended_at, 'infinity') as ended_at
       from span s join everbeat.task t on t.id = s.task_id join everbeat.attempts a on a.claim_id = s.claim_id)
     select key, max((select count(*) from s b where b.key = a.key and b.started_at <= a.started_at and b.ended_at > a.started_at))::int as most
     from s a group by key`,
  );
  return Object.fromEntries(rows.map((row) => [row.key, row.most]));
}

describe("an exclusive key", () => {
  test("is respected by processes that are killed and replaced", { timeout: 90_000 }, async () => {
    const random = seededRandom("exclusive keys");
    const database = await openCrashDatabase();
    const { everbeat, count, query } = database;
    const limits: Record<string, number> = { a: 1, b: 1, c: 1, three: 3, four: 4 };
    const keys = Object.keys(limits);
    const inputs = Array.from({ length: 500 }, () => ({ ms: random.between(0, 15) }));
    await everbeat.enqueueMany(span, inputs, {
      options: () => {
        const exclusiveKey = random.pick(keys);
        const exclusiveLimit = limits[exclusiveKey] as number;
        return { exclusiveKey, exclusiveLimit, queue: random.pick(["x", "y"]), priority: random.between(-1, 1) };
      },
    });
    const workers = [await startSpanning(database), await startSpanning(database), await startSpanning(database)];
    for (let kill = 1; kill <= 3; kill++) {
      const after = kill * 100 + random.between(0, 60);
      await eventually(() => count("everbeat.ended"), { until: (ended) => ended >= after, within: 30_000, every: 5 });
      const victim = random.pick(workers);
      await victim.kill();
      workers.splice(workers.indexOf(victim), 1, await startSpanning(database));
      // Its keys stay taken, since nobody knows that it is dead, until its tasks are taken away by hand.
      const left = await query<{ id: string }>(
        "select task_id::text as id from everbeat.running where replica_id = $1",
        [victim.replicaId],
      );
      await everbeat.tasks.retry(
        left.map(({ id }) => id),
        { force: true },
      );
    }
    await eventually(() => count("everbeat.ended"), {
      until: (ended) => ended === 500,
      within: 45_000,
      what: "the end of all 500",
    });
    for (const [key, most] of Object.entries(await mostAtOnce(database))) {
      expect(most, `at once under ${key}`).toBeLessThanOrEqual(limits[key] as number);
    }
    await database.expectSound();
  });

  test("with several at once is used to the full", { timeout: 30_000 }, async () => {
    const database = await openCrashDatabase();
    await database.everbeat.enqueueMany(
      span,
      Array.from({ length: 30 }, () => ({ ms: 50 })),
      {
        options: { exclusiveKey: "k", exclusiveLimit: 3 },
      },
    );
    await Promise.all([startSpanning(database), startSpanning(database)]);
    await eventually(() => database.count("everbeat.ended"), { until: (n) => n === 30, within: 15_000 });
    expect(await mostAtOnce(database)).toEqual({ k: 3 });
  });

  test.each(["has no workers", "is paused"])(
    "is not kept by tasks in a queue that %s",
    { timeout: 180_000 },
    async (trouble) => {
      const database = await openCrashDatabase();
      const { everbeat, count } = database;
      const first = await startSpanning(database);
      // One that runs, so that all the others are parked behind it, those of the dead queue first.
      const taskId = await everbeat.enqueue(task("hold"), {}, { queue: "alive", exclusiveKey: "shared" });
      await first.heard({ handler: "begun", taskId });
      const many = Array.from({ length: 40 }, () => ({ ms: 0 }));
      const keyed = (queue: string) => ({ options: { queue, exclusiveKey: "shared" } });
      await everbeat.enqueueMany(span, many, keyed("dead"));
      await everbeat.enqueueMany(span, many, keyed("alive"));
      await eventually(() => count("everbeat.parked"), { until: (n) => n === 80, within: 40_000 });
      if (trouble === "is paused") await everbeat.queues.pause("dead");
      else {
        await startSpanning(database, { queues: ["alive"] });
        first.signal("SIGTERM");
      }
      expect(await count("span")).toBe(0);
      first.release();
      const alive = "everbeat.ended e join everbeat.task t on t.id = e.task_id and t.queue = 'alive'";
      await eventually(() => count(alive), {
        until: (n) => n === 41,
        within: 40_000,
        what: "the end of the living queue's tasks",
      });
      expect(await count("everbeat.ended")).toBe(41);

      // And those go on, too, once their queue does.
      if (trouble === "is paused") await everbeat.queues.resume("dead");
      else await startSpanning(database, { queues: ["dead"] });
      await eventually(() => count("everbeat.ended"), {
        until: (n) => n === 81,
        within: 40_000,
        what: "the end of all",
      });
      expect(await mostAtOnce(database)).toEqual({ shared: 1 });
      await database.expectSound();
    },
  );

  test("is not kept by tasks that no worker knows", { timeout: 120_000 }, async () => {
    const database = await openCrashDatabase();
    const { everbeat, count, query } = database;
    const unknown = task("unknown");
    const worker = await startSpanning(database);
    const running = await everbeat.enqueue(task("hold"), {}, { exclusiveKey: "shared" });
    await worker.heard({ handler: "begun", taskId: running });
    const parked = await everbeat.enqueueMany(unknown, [{}, {}, {}], { options: { exclusiveKey: "shared" } });
    // A worker that knew them met them while the key was taken.
    await query(
      `with gone as (delete from everbeat.ready where task_id = any ($1::uuid[]) returning *)
       insert into everbeat.parked select task_id, queue, priority, run_at, name, attempt, failures, crashes, expires_at, 'shared' from gone`,
      [parked],
    );
    const known = await everbeat.enqueue(span, { ms: 0 }, { exclusiveKey: "shared" });
    await eventually(() => count("everbeat.parked"), { until: (n) => n === 4, within: 20_000 });
    worker.release();
    await everbeat.result(running, { timeout: 20_000 });
    await everbeat.result(known, { timeout: 40_000 });
    await database.expectSound();
  });
});

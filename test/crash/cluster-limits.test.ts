/** Limits that hold for all processes together: how many at once, and how many per time. */
import { describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startWorker, task } from "../support/worker-process.ts";

const span = defineTask({ name: "span", run: async (_input: { ms: number }) => {} });

async function startThree({ url }: CrashDatabase, work: object = {}) {
  const options = {
    url,
    work: { pollInterval: 60_000, concurrency: 8, ...work },
    tasks: [{ handler: "span" as const }],
  };
  return Promise.all([startWorker(options), startWorker(options), startWorker(options)]);
}

const inputs = (count: number, ms: number) => Array.from({ length: count }, () => ({ ms }));

/** How many ran at once at the most, as the handlers themselves saw it. */
async function mostAtOnce({ query }: CrashDatabase, queue: string): Promise<number> {
  const [row] = await query<{ most: number }>(
    `with s as (select s.* from span s join everbeat.task t on t.id = s.task_id where t.queue = $1)
     select max((select count(*) from s b where b.started_at <= a.started_at and b.ended_at > a.started_at))::int as most from s a`,
    [queue],
  );
  return row?.most ?? 0;
}

/** The starts beyond what a full budget and its steady return allow, over every stretch of time that there is. */
async function startsBeyond({ query }: CrashDatabase, rate: { limit: number; perMs: number }): Promise<unknown[]> {
  return query(
    `with s as (select started_at as at, row_number() over (order by started_at, claim_id) as nth from everbeat.attempts)
     select a.nth as "from", b.nth as "to", extract(epoch from b.at - a.at) * 1000 as ms from s a join s b on b.nth >= a.nth
     where b.nth - a.nth + 1 > $1 + ceil(extract(epoch from b.at - a.at) * 1000 / ($2::float8 / $1)) limit 5`,
    [rate.limit, rate.perMs],
  );
}

describe("a queue's concurrency", () => {
  test("is never exceeded by three processes, nor left unused", { timeout: 120_000 }, async () => {
    const database = await openCrashDatabase();
    await database.everbeat.queues.set("narrow", { concurrency: 3 });
    await database.everbeat.queues.set("single", { concurrency: 1 });
    await startThree(database);
    await database.everbeat.enqueueMany(span, inputs(200, 10), { options: { queue: "narrow" } });
    await database.everbeat.enqueueMany(span, inputs(60, 5), { options: { queue: "single" } });
    await database.everbeat.enqueueMany(span, inputs(200, 5));
    await eventually(() => database.count("everbeat.ended"), { until: (n) => n === 460, within: 40_000 });
    expect(await mostAtOnce(database, "narrow")).toBe(3);
    expect(await mostAtOnce(database, "single")).toBe(1);
    expect(await mostAtOnce(database, "default")).toBeGreaterThan(3);
    await database.expectSound();
  });

  test("is given to whoever waits for it in another process", { timeout: 120_000 }, async () => {
    const database = await openCrashDatabase();
    await database.everbeat.queues.set("default", { concurrency: 1 });
    const options = {
      url: database.url,
      work: { pollInterval: 60_000, concurrency: 1 },
      tasks: [{ handler: "deaf" as const }],
      forward: ["task.ended" as const],
    };
    const [first, second] = await Promise.all([startWorker(options), startWorker(options)]);
    const deaf = task("deaf");
    const before = await database.everbeat.enqueue(deaf, {});
    const holder = await eventually(() =>
      [first, second].find((worker) => worker.messages.some((message) => message.handler === "begun")),
    );
    const other = holder === first ? second : first;
    // It finishes and leaves: only the other can take what comes next, and it was told so.
    const after = await database.everbeat.enqueue(deaf, {});
    holder?.signal("SIGTERM");
    await database.untilStatus(holder?.replicaId as string, "draining");
    holder?.release();
    await database.everbeat.result(before);
    // It would look without being told after a minute.
    await other.heard({ handler: "begun", taskId: after }, 30_000);
    await database.expectSound();
  });
});

describe("a rate limit", () => {
  test("of a queue holds for three processes, and what it allows is used", { timeout: 120_000 }, async () => {
    const database = await openCrashDatabase();
    await database.everbeat.queues.set("default", { rateLimit: { limit: 20, per: 500 } });
    await database.everbeat.queues.set("other", { rateLimit: { limit: 20, per: 500 } });
    await startThree(database, { prefetch: 0 });
    await database.everbeat.enqueueMany(span, inputs(140, 1));
    // 20 at once and the rest at 40 a second: three seconds, and the rest for the machine. One that slept would do so for a minute.
    await eventually(() => database.count("everbeat.ended"), { until: (n) => n === 140, within: 30_000 });
    expect(await startsBeyond(database, { limit: 20, perMs: 500 })).toEqual([]);
    await database.expectSound();
  });

  test("of a key holds for three processes and two queues, and what it allows is used", {
    timeout: 120_000,
  }, async () => {
    const database = await openCrashDatabase();
    await startThree(database, { prefetch: 0 });
    const rateLimit = { key: "api", limit: 10, per: 500 };
    await Promise.all(
      ["a", "b"].map((queue) => database.everbeat.enqueueMany(span, inputs(40, 1), { options: { queue, rateLimit } })),
    );
    await eventually(() => database.count("everbeat.ended"), { until: (n) => n === 80, within: 30_000 });
    expect(await startsBeyond(database, { limit: 10, perMs: 500 })).toEqual([]);
    await database.expectSound();
  });
});

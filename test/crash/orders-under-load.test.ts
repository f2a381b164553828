/** People cancel and retry in bulk while workers claim, start, finish and give back the very same tasks: nobody waits in a circle. */
import { describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { startWorker } from "../support/worker-process.ts";

const KEYS = ["k", "l", "m", "n", "o", "p"];
const note = defineTask({ name: "note", run: async (_input: { ms: number }) => {} });

describe("orders in bulk", () => {
  test("cancel and retry what is being run, in several queues with limits and keys", { timeout: 90_000 }, async () => {
    const random = seededRandom("orders under load");
    const database = await openCrashDatabase();
    const { everbeat, count, query } = database;
    // Limits of two queues at once: claims that lock them each way round would wait for each other.
    await everbeat.queues.set("p", { concurrency: 30 });
    await everbeat.queues.set("q", { concurrency: 30, rateLimit: { limit: 1_000, per: 100 } });
    await everbeat.queues.set("r", { rateLimit: { limit: 1_000, per: 100 } });
    const options = {
      url: database.url,
      work: { concurrency: 10, prefetch: 30, pollInterval: 500 },
      tasks: [{ handler: "note" as const }],
      effectOptions: "-c synchronous_commit=off",
    };
    const workers = [await startWorker(options), await startWorker(options), await startWorker(options)];
    const until = performance.now() + 8_000;
    const isOn = () => performance.now() < until;
    let orders = 0;
    const failed: unknown[] = [];
    const insist = (order: Promise<unknown>) => order.catch((error: unknown) => failed.push(error));

    const callers = Array.from({ length: 2 }, async () => {
      while (isOn()) {
        // Some end while an order is on its way to them; the others are there when it comes, so that it frees keys of several workers.
        const msOf = () => (random.next() < 0.5 ? random.between(0, 5) : random.between(100, 600));
        const inputs = Array.from({ length: 60 }, () => ({ ms: msOf() }));
        await everbeat.enqueueMany(note, inputs, {
          options: () => ({
            queue: random.pick(["p", "q", "r", "s"]),
            priority: random.between(-2, 2),
            // Several tasks of a key in the hands of several workers: whoever ends them in bulk frees many keys at once.
            ...(random.next() < 0.8 ? { exclusiveKey: random.pick(KEYS), exclusiveLimit: 20 } : {}),
            ...(random.next() < 0.1 ? { expiresIn: random.between(1, 300) } : {}),
          }),
        });
        await eventually(() => count("everbeat.ready"), { until: (ready) => ready < 150, within: 20_000 });
      }
    });
    const operators = Array.from({ length: 10 }, async (_, operator) => {
      while (isOn()) {
        const rows = await query<{ id: string }>(
          `(select task_id::text as id from everbeat.running order by random() limit 12) union all
           (select task_id::text from (select task_id from everbeat.ready union all select task_id from everbeat.parked) t order by random() limit 12)`,
        );
        const ids = rows.map((row) => row.id);
        if (operator < 4) await insist(everbeat.tasks.cancel(ids, { grace: 0 }));
        else if (operator < 9) await insist(everbeat.tasks.retry(ids, { force: true }));
        else await insist(everbeat.queues.set(random.pick(["p", "q"]), { concurrency: random.pick([20, 30, null]) }));
        orders++;
      }
    });
    await Promise.all([...callers, ...operators]);
    expect(failed).toEqual([]);
    expect(orders).toBeGreaterThan(20);
    await everbeat.queues.set("p", { concurrency: null });
    await everbeat.queues.set("q", { concurrency: null });
    const tasks = await count("everbeat.task");
    await eventually(() => count("everbeat.ended"), {
      until: (n) => n === tasks,
      within: 40_000,
      what: `the end of ${tasks}`,
    });
    // Nobody had to be brought back: the workers of the beginning are at work.
    const replicas = await everbeat.replicas();
    expect(replicas.map((replica) => replica.id).sort()).toEqual(workers.map((worker) => worker.replicaId).sort());
    await database.expectSound();
  });
});

/** Every connection is ended again and again while tasks are put in, run and finished. */
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { startCuttingProxy } from "../support/cutting-proxy.ts";
import { LISTENING } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { startWorker, task } from "../support/worker-process.ts";

const FOR_MS = 30_000;
const quick = task("quick");

test("connections ended once a second for 30 s under load", { timeout: 120_000 }, async () => {
  const database = await openCrashDatabase();
  const { everbeat, count, query } = database;
  const options = {
    url: database.url,
    // This is not about hearts, which are to be back within a second: on a busy machine they are not.
    open: { recovery: { sessionGrace: 10_000 } },
    work: { concurrency: 10, pollInterval: 500 },
    tasks: [{ handler: "quick" as const }],
    forward: ["database.lost" as const, "claim.lost" as const],
  };
  const workers = [
    await startWorker(options),
    await startWorker({ ...options, work: { ...options.work, prefetch: 20 } }),
  ];
  const accepted: string[] = [];
  const refused: unknown[] = [];
  const until = performance.now() + FOR_MS;
  const callers = Array.from({ length: 4 }, async (_, caller) => {
    for (let call = 0; performance.now() < until; call++) {
      const options = call % 5 === 0 ? { uniqueKey: `${caller}-${call}` } : {};
      await everbeat.enqueue(quick, {}, options).then(
        (id) => accepted.push(id),
        (error) => refused.push(error),
      );
      // No faster than the workers, so that there is load all the time and no mountain at the end.
      if (call % 20 === 0)
        await eventually(() => count("everbeat.ready"), { until: (ready) => ready < 1_000, within: 20_000 });
      if (call % 20 === 0) {
        const inputs = Array.from({ length: 50 }, () => ({}));
        await everbeat.enqueueMany(quick, inputs).then(
          (ids) => accepted.push(...ids),
          (error) => refused.push(error),
        );
      }
    }
  });
  // By a connection to another database, which it spares.
  const elsewhere = new URL(database.url);
  elsewhere.pathname = "/postgres";
  let ended = 0;
  const terminator = new pg.Client(elsewhere.href);
  await terminator.connect();
  onTestFinished(() => terminator.end());
  const endAll = "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1";
  while (performance.now() < until) {
    ended += (await terminator.query(endAll, [database.name])).rowCount ?? 0;
    await pause(1_000);
  }
  await Promise.all(callers);
  expect(ended).toBeGreaterThan(100);

  const tasks = await eventually(() => count("everbeat.task"), { until: (n) => n > 0 });
  const left = "select state, replica_id, count(*) from everbeat.tasks where ended_at is null group by 1, 2";
  await eventually(() => query(left), { until: (rows) => rows.length === 0, within: 20_000, every: 100 });
  expect(await count("everbeat.running")).toBe(0);
  const exist = new Set(
    (await query<{ id: string }>("select id::text from everbeat.tasks where state = 'completed'")).map(({ id }) => id),
  );
  expect(accepted.filter((id) => !exist.has(id))).toEqual([]);
  expect(new Set(accepted).size).toBe(accepted.length);
  expect(exist.size).toBe(tasks);
  expect(await count("everbeat.attempts")).toBe(tasks);
  expect(await count("everbeat.late")).toBe(0);
  // Within its patience every call got through.
  expect(refused).toEqual([]);
  expect(tasks).toBe(accepted.length);
  expect(workers.flatMap((worker) => worker.messages.filter((message) => message.event === "claim.lost"))).toEqual([]);

  // Each worker listens again: a task is started when it is told, not at the next look.
  await eventually(() => count(LISTENING), { until: (n) => n >= workers.length });
  await database.expectSound();
});

test("connections ended in the very moment in which they are ready do not end the process", async () => {
  const database = await openCrashDatabase();
  const { everbeat } = database;
  const proxy = await startCuttingProxy(database.url);
  const worker = await startWorker({ url: proxy.url, work: { pollInterval: 100 }, tasks: [{ handler: "quick" }] });
  proxy.endWhenReady(5);
  await database.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
  );
  await eventually(() => proxy.toBeEnded === 0);
  await everbeat.result(await everbeat.enqueue(quick, {}), { timeout: 10_000 });
  expect(worker.complaints()).toBe("");
  await database.expectSound();
});

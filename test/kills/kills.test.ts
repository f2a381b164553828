/** How long it takes from SIGKILL to the verdict at default settings, many times over; raw times in results/kills.json. */
import { mkdir, writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { startWorker, task } from "../support/worker-process.ts";

const KILLS = Number(process.env["EVERBEAT_KILLS"] ?? 100);
const TASKS = [{ handler: "hold", onCrash: "requeue" }] as const;

test(`${KILLS} killed workers are known to be dead within 1.5 s at the median and 3 s at the 99th percentile`, async () => {
  const database = await openCrashDatabase({ recovery: { crashBudget: 1_000 } });
  const open = { recovery: { crashBudget: 1_000 } };
  const start = () => startWorker({ url: database.url, tasks: TASKS, open, work: { concurrency: 1 } });
  const id = await database.everbeat.enqueue(task("hold"), {});
  const kills: { verdictMs: number; runningAgainMs: number }[] = [];
  let running = await start();
  await running.heard({ handler: "begun", taskId: id });
  for (let kill = 0; kill < KILLS; kill++) {
    const next = await start();
    const [{ at: killedAt } = { at: new Date() }] = await database.query<{ at: Date }>(
      "select clock_timestamp() as at",
    );
    await running.kill();
    const { died_at: diedAt } = await database.untilStatus(running.replicaId, "dead", 30_000);
    await next.heard({ handler: "begun", taskId: id });
    const { startedAt } = await database.everbeat.tasks.show(id);
    kills.push({
      verdictMs: Number(diedAt) - Number(killedAt),
      runningAgainMs: Number(startedAt) - Number(killedAt),
    });
    running = next;
  }
  const verdicts = kills.map(({ verdictMs }) => verdictMs).sort((a, b) => a - b);
  const percentile = (share: number) => verdicts[Math.max(0, Math.ceil(share * verdicts.length) - 1)] ?? 0;
  const summary = { kills: KILLS, p50: percentile(0.5), p99: percentile(0.99), max: verdicts.at(-1) };
  const folder = new URL("results/", import.meta.url);
  await mkdir(folder, { recursive: true });
  await writeFile(new URL("kills.json", folder), `${JSON.stringify({ ...summary, raw: kills }, null, 1)}\n`);
  console.log(summary);
  expect(summary.p50).toBeLessThanOrEqual(1_500);
  expect(summary.p99).toBeLessThanOrEqual(3_000);
});

/** A worker dies with one task running and two claimed: what each becomes, by hand and by itself. */
import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Everbeat } from "everbeat";
import { sendReport } from "./tasks.ts";

const everbeat = await Everbeat.open({ schema: "example_claimed", log: "silent", onProgress: console.log });
const children: ChildProcess[] = [];
try {
  console.log("Recovery switched off");
  const { running, claimed } = await killInTheMiddle("off");
  console.log("  a worker is killed: one task running, two claimed ahead");

  // Only those of this run, and not what the thresholds say: nobody wants to wait for a quarter of a minute here.
  const those = { ids: [running, ...claimed], after: "1s" } as const;
  const stale = await until(async () => {
    const found = await everbeat.recovery.findStale(those);
    return found.length === 3 && found;
  });
  for (const { state, hostname, silentForMs } of stale)
    console.log(`  stale: ${state} on ${hostname}, silent for ${Math.round(silentForMs ?? 0)} ms`);

  const would = await everbeat.recovery.requeueStaleClaimed({ ...those, dryRun: true });
  assert.equal(would.count, 2);
  assert.equal((await everbeat.tasks.show(claimed[0] ?? "")).state, "claimed");
  console.log("  nothing happens by itself, and a dry run changes nothing");

  const requeued = await everbeat.recovery.requeueStaleClaimed(those);
  assert.deepEqual([...requeued.ids].sort(), [...claimed].sort());
  for (const id of claimed) {
    const { state, attempt, failures, attempts } = await everbeat.tasks.show(id);
    assert.deepEqual([state, attempt, failures, attempts.length], ["pending", 0, 0, 0]);
  }
  console.log(`  by hand: ${requeued.count} claimed tasks are pending again, nothing spent`);

  const failed = await everbeat.recovery.failStaleRunning(those);
  assert.deepEqual(failed.ids, [running]);
  const crash = await everbeat.tasks.show(running);
  assert.deepEqual([crash.state, crash.error?.code], ["failed", "WORKER_CRASHED"]);
  assert.equal((await everbeat.recovery.review.list({ ids: [running] })).length, 1);
  console.log(`  by hand: ${failed.count} running task has failed, and needs review:`);
  console.log(`    ${crash.error?.code}: ${crash.error?.message}`);
  await everbeat.tasks.cancel(claimed);

  console.log("Recovery on, as by default");
  const again = await killInTheMiddle("on");
  const killedAt = performance.now();
  await startWorker("on");
  await until(async () => (await everbeat.tasks.show(again.running)).state === "failed");
  const knownMs = performance.now() - killedAt;
  assert.equal((await everbeat.tasks.show(again.running)).error?.code, "WORKER_CRASHED");
  for (const id of again.claimed) assert.equal(await everbeat.result(id), "a short one was sent");
  for (const id of again.claimed) assert.equal((await everbeat.tasks.show(id)).attempts.length, 1);
  console.log(`  a new worker is started; ${(knownMs / 1_000).toFixed(1)} s after the kill the running one has failed`);
  console.log("  the two claimed ones were given back and have completed, each in its first attempt");
} finally {
  for (const child of children) child.kill("SIGKILL");
}
await everbeat.close();

async function startWorker(recovery: "on" | "off"): Promise<ChildProcess> {
  const child = fork(fileURLToPath(new URL("./worker.ts", import.meta.url)), [recovery]);
  children.push(child);
  await once(child, "message");
  return child;
}

/** A worker that has one task running and two claimed, killed there and then. */
async function killInTheMiddle(recovery: "on" | "off"): Promise<{ running: string; claimed: string[] }> {
  const worker = await startWorker(recovery);
  const running = await everbeat.enqueue(sendReport, { report: "a long one", takesMs: 600_000 });
  await until(async () => (await everbeat.tasks.show(running)).state === "running");
  const short = { report: "a short one", takesMs: 10 };
  const claimed = await everbeat.enqueueMany(sendReport, [short, short]);
  await until(async () => {
    const tasks = await Promise.all(claimed.map((id) => everbeat.tasks.show(id)));
    return tasks.every((task) => task.state === "claimed");
  });
  const beats = await everbeat.database.query<{ role: string }>(
    "select role from example_claimed.heartbeats where task_id = any ($1) order by id",
    [[running, ...claimed]],
  );
  assert.deepEqual(
    beats.map(({ role }) => role),
    ["runner", "claimer", "claimer"],
  );
  worker.kill("SIGKILL");
  await once(worker, "exit");
  return { running, claimed };
}

/** Looks until there is something to see, for at most half a minute. */
async function until<T>(look: () => Promise<T | undefined | false>): Promise<T> {
  const givingUpAt = performance.now() + 30_000;
  for (;;) {
    const seen = await look();
    if (seen !== undefined && seen !== false) return seen;
    assert.ok(performance.now() < givingUpAt, "it did not happen within 30 s");
    await pause(50);
  }
}

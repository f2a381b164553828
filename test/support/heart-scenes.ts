/** Scenes that are played for a short time in the ordinary tests, and for as long as it takes in the suite of kills. */
import { expect } from "vitest";
import type { RecoveryOptions } from "../../src/config/recovery-options.ts";
import { holding, openCrashDatabase } from "./crash-database.ts";
import { eventually } from "./eventually.ts";
import { startWorker, task, type WorkerProcess } from "./worker-process.ts";

/** At default settings, CPU work keeps the event loop from turning for this long. */
export async function blockTheEventLoop(ms: number): Promise<void> {
  const database = await openCrashDatabase();
  const busy = await startWorker({ url: database.url, tasks: [{ handler: "burn" }], work: { concurrency: 1 } });
  const watching = await startWorker({ url: database.url, tasks: [{ handler: "quick" }] });
  const id = await database.everbeat.enqueue(task("burn"), { ms });
  await busy.heard({ handler: "begun", taskId: id });
  await eventually(async () => ((await database.replica(busy.replicaId)).vitals?.blockedForMs ?? 0) > ms * 0.75, {
    within: ms + 10_000,
    what: "beats that say that it is blocked",
  });
  expect(await database.everbeat.tasks.show(id)).toMatchObject({ state: "running", attempt: 1 });
  expect(await database.everbeat.result(id, { timeout: ms })).toBe("burnt");
  expect(await database.replica(busy.replicaId)).toMatchObject({ status: "online" });
  expect(await database.deaths()).toBe(0);
  for (const { messages } of [busy, watching]) {
    expect(messages.filter(({ event }) => event === "replica.fenced" || event === "task.recovered")).toEqual([]);
  }
}

/** At default settings or others, the backend of its heart is terminated every second for this long. */
export async function endTheSessionEverySecond(ms: number, recovery: RecoveryOptions = {}): Promise<void> {
  const database = await openCrashDatabase();
  const { url } = database;
  const open = { recovery };
  const worker = await startWorker({ url, open, tasks: [{ handler: "hold", onCrash: "requeue" }] });
  await startWorker({ url, open, tasks: [{ handler: "quick" }] });
  const id = await database.everbeat.enqueue(task("hold"), {});
  await worker.heard({ handler: "begun", taskId: id });
  const until = performance.now() + ms;
  let ended = 0;
  const endOnce = async () => {
    const rows = await database.query(
      `select pg_terminate_backend(l.pid) from pg_locks l join everbeat.heart h
         on (l.classid::bigint << 32) | l.objid::bigint = h.session_key
       where l.locktype = 'advisory' and h.replica_id = $1`,
      [worker.replicaId],
    );
    ended += rows.length;
    // Each time it had to have its lock back before.
    return performance.now() > until && ended > ms / 1_500;
  };
  await eventually(endOnce, { every: 1_000, within: 2 * ms, what: "sessions that could be ended" });
  expect(await database.deaths()).toBe(0);
  expect(fences(worker)).toEqual([]);
  worker.release();
  expect(await database.everbeat.result(id, { timeout: 10_000 })).toBe("held");
  expect(await database.crashesOf(id)).toBe(0);
}

/** The database answers other questions, but writes no beat for this long: for silence that is nothing, for a session it would be. */
export async function letNoBeatBeWritten(ms: number): Promise<void> {
  const database = await openCrashDatabase();
  const recovery = { claimedStaleThreshold: "1m", runningStaleThreshold: "1m" } as const;
  const tasks = [{ handler: "hold", onCrash: "requeue" }] as const;
  const worker = await startWorker({ url: database.url, open: { recovery }, tasks });
  const id = await database.everbeat.enqueue(task("hold"), {});
  await worker.heard({ handler: "begun", taskId: id });
  const lock = await holding(database.url, "lock table everbeat.heart in exclusive mode");
  const until = performance.now() + ms;
  await eventually(() => performance.now() > until, { within: 2 * ms });
  await lock.release();
  const { beat_at: before } = await database.replica(worker.replicaId);
  await eventually(async () => (await database.replica(worker.replicaId)).beat_at > before, { what: "another beat" });
  expect(fences(worker)).toEqual([]);
  expect(await database.deaths()).toBe(0);
  worker.release();
  expect(await database.everbeat.result(id, { timeout: 10_000 })).toBe("held");
  expect(await database.everbeat.tasks.show(id)).toMatchObject({ attempt: 1, replicaId: worker.replicaId });
}

/** Kills it in a moment in which this is so. */
export async function killWhile(
  worker: Pick<WorkerProcess, "signal" | "kill">,
  isSo: () => Promise<boolean>,
): Promise<void> {
  const stopThen = async () => {
    if (!(await isSo())) return false;
    worker.signal("SIGSTOP");
    if (await isSo()) return true;
    worker.signal("SIGCONT");
    return false;
  };
  await eventually(stopThen, { every: 5, within: 30_000 });
  await worker.kill();
}

function fences({ messages }: WorkerProcess): unknown[] {
  return messages.filter(({ event }) => event === "replica.fenced");
}

/** What workers that died have left behind, each kind of it: for tests of those who show it, or put it right. */
import { randomUUID } from "node:crypto";
import type { Everbeat } from "../../src/everbeat.ts";
import { noteRunners } from "../../src/sql/runners.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { TaskId } from "../../src/task/ids.ts";
import { failed, handClaimer } from "./claims.ts";
import { eventually } from "./eventually.ts";

const abandoned = defineTask({ name: "abandoned", run: async () => {} });
/** So many of each: running and claimed. */
const EACH = 2;

/**
 * A worker that is on record as online and is silent, with tasks of its own. Its heart has promised to stop at once, so its tasks can be
 * recovered by hand; a reaper would wait for fifteen seconds.
 */
export async function silentOwner(everbeat: Everbeat): Promise<{ running: TaskId[]; claimed: TaskId[] }> {
  const { database } = everbeat;
  const owner = handClaimer(database, [abandoned.name]);
  await everbeat.enqueueMany(abandoned, Array.from({ length: 2 * EACH }));
  const claimed = await owner.claim({ run: EACH, prefetch: EACH });
  await database.query(`update ${database.schema}.heart set promise_ms = 1, interval_ms = 1000 where replica_id = $1`, [
    owner.replicaId,
  ]);
  const idsOf = (state: string) => claimed.filter((task) => task.state === state).map(({ taskId }) => taskId);
  return { running: idsOf("running"), claimed: idsOf("claimed") };
}

/** One that was declared dead while it ran a task, in a runner. A worker that is there recovers it: it fails, and there are post-mortems. */
export async function deadOwner(everbeat: Everbeat): Promise<TaskId> {
  const { database } = everbeat;
  const owner = handClaimer(database, [abandoned.name]);
  await everbeat.enqueueMany(abandoned, [undefined]);
  const [task] = await owner.claim();
  if (!task) throw new Error("nothing was claimed");
  const { claimId, taskId } = task;
  const exit = { code: null, signal: "SIGKILL", because: "ended" };
  const runner = { kind: "process", pid: 7, ageMs: 9_000, silentForMs: 100, vitals: { rss: 1, heapUsed: 2 } } as const;
  await noteRunners(database, owner.replicaId, [
    { ...runner, id: randomUUID(), status: "busy", claims: [{ claimId, taskId }], exit: null },
    { ...runner, id: randomUUID(), status: "ended", claims: [], exit },
  ]);
  await database.query(
    `update ${database.schema}.replica set status = 'dead', died_at = now(), death = '{"because": "silent", "silentForMs": 16000}'
     where id = $1`,
    [owner.replicaId],
  );
  await eventually(async () => (await everbeat.recovery.postMortems({ of: taskId })).length > 0);
  await eventually(async () => (await everbeat.tasks.show(taskId)).state === "failed");
  return taskId;
}

/** A task that was convicted of killing its workers. */
export async function quarantined(everbeat: Everbeat): Promise<TaskId> {
  const { database } = everbeat;
  const owner = handClaimer(database, [abandoned.name]);
  await everbeat.enqueueMany(abandoned, [undefined]);
  const [task] = await owner.claim();
  if (!task) throw new Error("nothing was claimed");
  const error = { code: "POISONED", message: "It was running when 3 workers died." };
  await owner.end([{ ...failed(task, owner.replicaId), crashes: 3, error }]);
  return task.taskId;
}

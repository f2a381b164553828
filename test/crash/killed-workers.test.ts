/** SIGKILL of workers at random moments: nothing is lost, nothing ends twice, and what they leave behind is there to be seen. */
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { startWorker, task, type WorkerProcess } from "../support/worker-process.ts";

const TASKS = 10_000;
const KILLS = 8;
const note = defineTask({ name: "note", run: async (_input: { ms?: number }) => {} });
const completing = task("completeIn");

async function startNoting({ url }: CrashDatabase): Promise<WorkerProcess> {
  return startWorker({
    url,
    // What a killed worker leaves behind is looked at here, so nobody is to recover it.
    open: { recovery: { autoFailStaleRunning: false, autoRequeueStaleClaimed: false } },
    work: { pollInterval: 2_000, concurrency: 8 },
    tasks: [{ handler: "note" }, { handler: "completeIn" }],
    // Only workers die here, not the server: 10,000 handlers need not wait for its disk.
    effectOptions: "-c synchronous_commit=off",
  });
}

test("10,000 tasks while workers are killed at random moments", { timeout: 120_000 }, async () => {
  const random = seededRandom("killed workers");
  const database = await openCrashDatabase();
  const { everbeat, count, query } = database;

  const accepted: string[] = [];
  for (let batch = 0; batch < 10; batch++) {
    const inputs = Array.from({ length: TASKS / 20 }, () => ({ ms: random.between(0, 2) }));
    accepted.push(...(await everbeat.enqueueMany(note, inputs)), ...(await everbeat.enqueueMany(completing, inputs)));
  }
  expect(accepted).toHaveLength(TASKS);

  const workers = [await startNoting(database), await startNoting(database), await startNoting(database)];
  const dead: WorkerProcess[] = [];
  for (let kill = 1; kill <= KILLS; kill++) {
    // After a random number of further tasks, so that the moment depends on the work and not on the machine's speed.
    // Some are left behind by the dead, so the last of them can never be waited for.
    const after = Math.min((await count("everbeat.ended")) + random.between(100, 900), TASKS * 0.7);
    await eventually(() => count("everbeat.ended"), { until: (ended) => ended >= after, within: 60_000, every: 7 });
    const victim = random.pick(workers);
    await victim.kill();
    dead.push(victim);
    workers.splice(workers.indexOf(victim), 1, await startNoting(database));
  }
  const living = new Set(workers.map((worker) => worker.replicaId));
  await eventually(
    async () => {
      const owned = await query<{ replica_id: string }>("select replica_id from everbeat.running");
      return (await count("everbeat.ready")) === 0 && owned.every((row) => !living.has(row.replica_id));
    },
    { within: 60_000, every: 100, what: "the end of all that the living can do" },
  );

  await database.expectSound();
  expect(await count("everbeat.task")).toBe(TASKS);
  expect(await count("everbeat.tasks where id = any (null) or state is null")).toBe(0);

  // What the dead left behind: still there, owned by them, and visible.
  const left = await query<{ id: string; replica_id: string }>(
    "select id::text, replica_id::text from everbeat.tasks where state in ('claimed', 'running')",
  );
  expect(left.length).toBeGreaterThan(0);
  expect(left.length + (await count("everbeat.ended where state = 'completed'"))).toBe(TASKS);
  expect(await count("everbeat.ended where state <> 'completed'")).toBe(0);
  const deadIds = new Set(dead.map((worker) => worker.replicaId));
  expect(left.filter((task) => !deadIds.has(task.replica_id))).toEqual([]);
  const replicas = (await everbeat.replicas()).filter((replica) => deadIds.has(replica.id));
  expect(replicas.reduce((sum, { claimed, running }) => sum + claimed + running, 0)).toBe(left.length);
  for (const { replicaId } of dead) {
    const listed = (
      await Promise.all(
        (["claimed", "running"] as const).map((state) => everbeat.tasks.list({ state, replicaId, limit: 1_000 })),
      )
    ).flatMap((page) => page.tasks.map((task) => task.id));
    expect(listed.sort()).toEqual(
      left
        .filter((task) => task.replica_id === replicaId)
        .map((task) => task.id)
        .sort(),
    );
  }

  // No attempt but one each: without recovery nothing runs twice, and what ran in the task's own transaction is there
  // exactly if the task has completed.
  expect(await count("everbeat.attempts")).toBe(TASKS);
  expect(await query("select task_id from effect group by task_id having count(*) > 1")).toEqual([]);
  expect(
    await count(
      "effect e where e.kind = 'completed' and not exists (select from everbeat.ended d where d.task_id = e.task_id and d.claim_id = e.claim_id)",
    ),
  ).toBe(0);
  expect(
    await count(
      "everbeat.ended d where not exists (select from effect e where e.task_id = d.task_id and e.claim_id = d.claim_id)",
    ),
  ).toBe(0);

  // An operator can have them run again, and then all have ended.
  const ids = left.map((task) => task.id);
  expect((await everbeat.tasks.retry(ids, { force: true })).filter(({ outcome }) => outcome !== "taken")).toEqual([]);
  await eventually(() => count("everbeat.ended"), { until: (ended) => ended === TASKS, within: 30_000, every: 100 });
  expect(await count("effect where kind = 'completed'")).toBe(TASKS / 2);
  expect(
    await query("select task_id from effect where kind = 'completed' group by task_id having count(*) > 1"),
  ).toEqual([]);
  await database.expectSound();
});

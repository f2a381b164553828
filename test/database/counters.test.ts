/** Counters at their limits: attempts, failures and crashes stop counting there, and nothing else stops with them. */
import { describe, expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import { Events } from "../../src/events.ts";
import { PostMortems } from "../../src/recovery/post-mortems.ts";
import { recoverTasksOf } from "../../src/recovery/recover.ts";
import type { ClaimedTask } from "../../src/sql/claims.ts";
import type { Outcome } from "../../src/sql/outcomes.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { TaskId } from "../../src/task/ids.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { unique } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const settings = checkRecovery({}, new Problems());
const SMALL = 32_767;
const LAST = 2_147_483_647;

/** One that has been tried so often, and another beside it, both claimed by one worker. */
async function claimedAt(count: number, definition: object = {}) {
  const name = unique("counted");
  const task = defineTask({ name, run: (_input: null) => null });
  await database.query("insert into everbeat.definition (name, settings) values ($1, $2::json)", [
    name,
    JSON.stringify(definition),
  ]);
  const [id, other] = (await everbeat.enqueueMany(task, [null, null])) as [TaskId, TaskId];
  await database.query(
    "update everbeat.ready set attempt = $2, failures = $2, crashes = $2, input = null where task_id = $1",
    [id, count],
  );
  const worker = handClaimer(everbeat.database, [name]);
  const claimed = await worker.claim();
  const claimOf = (wanted: TaskId) => claimed.find(({ taskId }) => taskId === wanted) as ClaimedTask;
  return { id, other, worker, claim: claimOf(id), beside: claimOf(other) };
}

const ref = ({ claimId, taskId }: ClaimedTask, { replicaId }: ReturnType<typeof handClaimer>) => ({
  claim: claimId,
  task: taskId,
  replica: replicaId,
});
const stateOf = async (id: TaskId) => (await everbeat.tasks.show(id))?.state;
const countsOf = async (id: TaskId) =>
  (
    await database.query(
      `select attempt, failures, crashes from everbeat.ready where task_id = $1
       union all select attempt, failures, crashes from everbeat.ended where task_id = $1`,
      [id],
    )
  )[0];

describe.each([SMALL - 1, SMALL, LAST - 1, LAST])("a task at attempt %i", (count) => {
  const next = Math.min(count + 1, LAST);

  test("is claimed with its counts, snoozes and is claimed again, and the one beside it completes", async () => {
    const { id, other, worker, claim, beside } = await claimedAt(count);
    expect(claim).toMatchObject({ attempt: count, failures: count, crashes: count });
    const snoozed: Outcome = { ...ref(claim, worker), to: "pending", outcome: "snoozed", delayMs: 0 };
    const completed: Outcome = { ...ref(beside, worker), to: "completed", outcome: "completed", resultJson: "1" };
    expect(await worker.end([snoozed, completed])).toMatchObject({ late: [] });
    expect(await countsOf(id)).toMatchObject({ attempt: next });
    expect(await worker.claim()).toMatchObject([{ taskId: id, attempt: next }]);
    expect(await stateOf(other)).toBe("completed");
  });

  test("crashes with its worker, is put right with the one beside it, and counts the crash if it was alone", async () => {
    const { id, other, worker, beside } = await claimedAt(count, { onCrash: "requeue" });
    await worker.complete(beside);
    const recovered = await recover(worker.replicaId);
    expect(recovered).toMatchObject([{ taskId: id, action: "quarantined" }]);
    expect(await countsOf(id)).toMatchObject({ attempt: count, crashes: next });
    expect(await stateOf(other)).toBe("completed");
  });

  test("crashes beside another, and both run again", async () => {
    const { id, other, worker } = await claimedAt(count, { onCrash: "requeue", crashBudget: 1 });
    await database.query("update everbeat.running set crashes = $2 where task_id = $1", [other, count]);
    const recovered = await recover(worker.replicaId);
    expect(recovered.map(({ taskId, action }) => [taskId, action]).sort()).toEqual(
      [
        [id, "retried"],
        [other, "retried"],
      ].sort(),
    );
    expect(await countsOf(id)).toMatchObject({ attempt: next });
  });

  test("that was suspected of more crashes than can be counted holds up nobody", async () => {
    const { id, worker } = await claimedAt(count, { onCrash: "requeue" });
    await database.query(
      `insert into everbeat.suspicion (task_id, replica_id, is_charged, is_apart)
       select $1, gen_random_uuid(), false, false from generate_series(1, 3)`,
      [id],
    );
    expect(await recover(worker.replicaId)).toHaveLength(2);
  });

  test("fails, is retried by hand, and is taken away by force", async () => {
    const { id, worker, claim } = await claimedAt(count);
    await worker.end([{ ...ref(claim, worker), to: "failed", outcome: "failed", error: { code: "X", message: "x" } }]);
    expect(await everbeat.tasks.retry(id)).toMatchObject([{ outcome: "pending" }]);
    expect(await countsOf(id)).toMatchObject({ attempt: next, failures: 0, crashes: 0 });
    expect(await worker.claim()).toMatchObject([{ taskId: id, attempt: next }]);
    expect(await everbeat.tasks.retry(id, { force: true })).toMatchObject([{ outcome: "taken" }]);
    expect(await countsOf(id)).toMatchObject({ attempt: Math.min(next + 1, LAST) });
  });

  test("that fails in a worker is counted there too", async () => {
    const name = unique("fails");
    const task = defineTask({
      name,
      retry: { attempts: 1 },
      run() {
        throw new Error("no");
      },
    });
    const id = await everbeat.enqueue(task, undefined, { delay: "1h" });
    await database.query("update everbeat.ready set attempt = $2, failures = $2, run_at = now() where task_id = $1", [
      id,
      count,
    ]);
    const worker = await everbeat.work([task], { handleSignals: false, pollInterval: 200 });
    await expect(everbeat.result(id, { timeout: 10_000 })).rejects.toThrow("no");
    await worker.stop();
    expect(await countsOf(id)).toMatchObject({ attempt: count, failures: next });
    expect((await everbeat.tasks.show(id))?.error).toMatchObject({ message: "no" });
  });
});

async function recover(replicaId: string) {
  const fail = (error: unknown) => {
    throw error;
  };
  const events = new Events(fail);
  events.on("post-mortem.failed", ({ error }) => fail(error));
  const postMortems = new PostMortems({ database: everbeat.database, events });
  return recoverTasksOf(
    { database: everbeat.database, events, settings, random: () => 0, postMortems },
    {
      ...{ replicaId, machineId: "m", hostname: "h", because: "session-lost" },
      ...{ silentForMs: 1_000, vitals: null },
    },
  );
}

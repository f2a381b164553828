/** JSON of users that PostgreSQL stores and cannot take apart: it is never in the way of anything. */
import { describe, expect, test } from "vitest";
import type { ClaimedTask } from "../../src/sql/claims.ts";
import type { Outcome } from "../../src/sql/outcomes.ts";
import { writeProgress } from "../../src/sql/progress.ts";
import { saveDefinitions } from "../../src/sql/replicas.ts";
import { defineTask, type TaskOptions } from "../../src/task/define-task.ts";
import { NO_PROGRESS } from "../../src/task/progress.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { anHourLater, sweeper } from "../support/sweeping.ts";
import { unique } from "../support/working.ts";

const { everbeat } = await openTestEverbeat();

const ODD = [
  ["a zero character", { text: "a\u0000b" }],
  ["half an emoji", { text: "\ud83d" }],
  ["the other half", { text: "\ude00 and more" }],
] as const;

/** Two that run and say nothing for an hour; the first has reported these details. */
async function stalledWith(details: unknown, options: Partial<TaskOptions> = {}) {
  const task = defineTask({ name: unique("odd"), stalledAfter: "1m", ...options, run: (_input: null) => null });
  await saveDefinitions(everbeat.database, [task.settings]);
  const ids = await everbeat.enqueueMany(task, [null, null]);
  const worker = handClaimer(everbeat.database, [task.name]);
  const claimed = await worker.claim();
  const [odd, other] = ids.map((id) => claimed.find(({ taskId }) => taskId === id)) as [ClaimedTask, ClaimedTask];
  await writeProgress(everbeat.database, [
    {
      ...NO_PROGRESS,
      claim: odd.claimId,
      task: odd.taskId,
      phase: "parse",
      details: JSON.stringify(details),
      isSign: true,
    },
  ]);
  await anHourLater(everbeat.database);
  return { name: task.name, odd, other, worker };
}

describe.each(ODD)("%s in the details of a phase", (_, details) => {
  test('does not keep a stall from being ended, nor the one beside it, with onStall: "fail"', async () => {
    const { name, odd, other } = await stalledWith(details, { onStall: "fail" });
    const { sweep, told, errors } = sweeper(everbeat.database);
    await sweep();
    expect(errors).toEqual([]);
    const stalled = told.filter(({ event, name: of }) => event === "task.stalled" && of === name);
    expect(stalled.map(({ claimId }) => claimId)).toEqual([odd.claimId, other.claimId]);
    expect(await everbeat.tasks.show(odd.taskId)).toMatchObject({
      state: "failed",
      error: { code: "STALLED", details },
    });
    expect((await everbeat.tasks.list({ errorCode: "STALLED" })).tasks.map(({ id }) => id)).toContain(odd.taskId);
  });

  test('is in the way of no retry with onStall: "retry"', async () => {
    const { odd } = await stalledWith(details, { onStall: "retry", retry: { attempts: 2 } });
    await sweeper(everbeat.database).sweep();
    expect(await everbeat.tasks.show(odd.taskId)).toMatchObject({
      state: "pending",
      attempts: [{ outcome: "failed", error: { code: "STALLED", details } }],
    });
  });

  test("is in the way of no alert, which tells of it", async () => {
    const { odd, other } = await stalledWith(details);
    await sweeper(everbeat.database).sweep();
    const alerts = await everbeat.alerts.list({ open: true });
    expect(alerts.filter(({ subject }) => subject === odd.taskId || subject === other.taskId)).toHaveLength(2);
    expect(await everbeat.recovery.explain(odd.taskId)).toMatchObject({ because: "stalled" });
  });

  test("is kept as the cause of a cancellation that came first, whose repetition is recognised", async () => {
    const { odd, worker } = await stalledWith(details);
    await everbeat.tasks.cancel(odd.taskId, { reason: 'no "more"' });
    const error = { code: "STALLED", message: "odd", details };
    const outcome: Outcome = {
      ...{ claim: odd.claimId, task: odd.taskId, replica: worker.replicaId, error },
      ...({ to: "pending", outcome: "failed", delayMs: 0 } as const),
    };
    expect(await worker.end([outcome])).toMatchObject({ late: [], repeated: [] });
    expect(await everbeat.tasks.show(odd.taskId)).toMatchObject({
      state: "cancelled",
      error: { code: "TASK_CANCELLED", message: 'no "more"', cause: error },
    });
    expect(await worker.end([outcome])).toMatchObject({ late: [], repeated: [odd.claimId] });
    const otherwise = { ...outcome, error: { ...error, message: "even" } };
    expect(await worker.end([otherwise])).toMatchObject({ late: [odd.claimId], repeated: [] });
  });
});

describe.each(ODD)("%s in a task's error", (_, details) => {
  test("is in the way of nobody who looks for errors by their code", async () => {
    const { odd, other, worker } = await stalledWith(details);
    const end = { replica: worker.replicaId, to: "failed", outcome: "failed" } as const;
    const error = { message: "odd", details };
    await worker.end([
      { ...end, claim: odd.claimId, task: odd.taskId, error: { ...error, code: "WORKER_CRASHED" } },
      { ...end, claim: other.claimId, task: other.taskId, error: { ...error, code: "POISONED" } },
    ]);
    expect((await everbeat.recovery.review.list()).map(({ id }) => id)).toContain(odd.taskId);
    expect((await everbeat.recovery.quarantine.list()).map(({ id }) => id)).toContain(other.taskId);
    await everbeat.recovery.review.done([odd.taskId]);
    expect((await everbeat.recovery.review.list()).map(({ id }) => id)).not.toContain(odd.taskId);
    expect(await everbeat.tasks.retry(odd.taskId)).toMatchObject([{ outcome: "pending" }]);
  });
});

/** A task that is tried again and again for years keeps a bounded record. */
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { writeProgress } from "../../src/sql/progress.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { NO_PROGRESS } from "../../src/task/progress.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();

async function snooze(name: string, times: number): Promise<void> {
  const worker = handClaimer(everbeat.database, [name]);
  for (let time = 0; time < times; time++) {
    const [claimed] = await worker.claim();
    if (!claimed) throw new Error("nothing was claimed");
    const { claimId: claim, taskId: task } = claimed;
    await writeProgress(everbeat.database, [{ ...NO_PROGRESS, claim, task, phase: "looking", isSign: true }]);
    const outcome = { claim, task, replica: worker.replicaId, to: "pending", outcome: "snoozed", delayMs: 0 } as const;
    await worker.end([outcome]);
    // Comes late, and is kept with the attempt.
    await worker.end([{ ...outcome, outcome: "failed", error: { code: "LATE", message: "late" } }]);
  }
}

test("of its attempts the first ten stay and the newest hundred, with what they said, and it says how many do not", async () => {
  const poll = defineTask({ name: "poll", run: (_input: unknown) => null });
  const id = await everbeat.enqueue(poll, 1, { id: randomUUID() });
  const rows = async (table: string) =>
    (await database.query(`select from everbeat.${table} where task_id = $1`, [id])).length;
  await snooze("poll", 100);
  expect(await everbeat.tasks.show(id)).toMatchObject({ attempt: 100, attemptsDropped: 0 });
  await snooze("poll", 120);
  const { attempts, attemptsDropped, attempt } = await everbeat.tasks.show(id);
  expect(attempt).toBe(220);
  const numbers = attempts.map((each) => each.attempt);
  expect(numbers).toEqual([...range(1, 10), ...range(101, 220)]);
  expect(attemptsDropped).toBe(90);
  expect(attempts.every(({ progress }) => progress?.phase === "looking")).toBe(true);
  for (const table of ["attempt", "progress", "late"]) expect(await rows(table)).toBe(130);
  await snooze("poll", 80);
  for (const table of ["attempt", "progress", "late"]) expect(await rows(table)).toBe(110);
});

test("one that has come to the last number of an attempt keeps a bounded record too", async () => {
  const id = await everbeat.enqueue(defineTask({ name: "old", run: (_input: unknown) => null }), 1, { delay: "1h" });
  await database.query(
    "update everbeat.ready set attempt = 2147483647 - 30, input = null, run_at = now() where task_id = $1",
    [id],
  );
  await snooze("old", 260);
  const kept = await database.query<{ attempt: number; claim: string }>(
    "select attempt, claim_id::text as claim from everbeat.attempt where task_id = $1 order by claim_id desc",
    [id],
  );
  expect(kept.length).toBeGreaterThanOrEqual(100);
  expect(kept.length).toBeLessThanOrEqual(150);
  expect(new Set(kept.map(({ attempt }) => attempt))).toEqual(new Set([2_147_483_647]));
  expect((await everbeat.tasks.show(id)).attempts.length).toBe(kept.length);
});

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}

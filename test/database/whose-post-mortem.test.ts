/** A post-mortem is of one attempt, and is never told as the reason for another. */
import { expect, test } from "vitest";
import { writePostMortems } from "../../src/sql/post-mortems.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { TaskId } from "../../src/task/ids.ts";
import { everbeatHere as here } from "../cli/run-here.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const at = { database: database.url };
const SENTENCE = "The process was killed by somebody else.";
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });

/** The next attempt of the task begins, and its worker dies: its replica is declared dead. */
async function runAndDie(id: TaskId) {
  const claimer = handClaimer(everbeat.database, ["noop"]);
  const [task] = await claimer.claim();
  if (task?.taskId !== id) throw new Error("another task was claimed");
  await database.query("update everbeat.replica set status = 'dead', died_at = now() where id = $1", [
    claimer.replicaId,
  ]);
  return { claimer, task };
}

async function examined({ claimer, task }: Awaited<ReturnType<typeof runAndDie>>): Promise<void> {
  const { replicaId } = claimer;
  const { taskId, claimId, name } = task;
  const told = { hostname: "h", cause: "killed", sentence: SENTENCE, evidence: ["one"] };
  await writePostMortems(everbeat.database, [
    { kind: "replica", replicaId, ...told },
    { kind: "attempt", replicaId, taskId, claimId, name, ...told },
  ]);
}

async function failNormally(id: TaskId): Promise<void> {
  const claimer = handClaimer(everbeat.database, ["noop"]);
  const [task] = await claimer.claim();
  if (task?.taskId !== id) throw new Error("another task was claimed");
  const error = { code: "TASK_FAILED", message: "it threw" };
  const ref = { claim: task.claimId, task: id, replica: claimer.replicaId };
  await claimer.end([{ ...ref, to: "failed", outcome: "failed", failures: 1, error }]);
}

test("an attempt that was failed by hand after its worker's death has a post-mortem: that of the worker", async () => {
  const id = await everbeat.enqueue(noop, 1);
  const { claimer } = await runAndDie(id);
  await writePostMortems(everbeat.database, [
    { kind: "replica", replicaId: claimer.replicaId, hostname: "h", cause: "killed", sentence: SENTENCE, evidence: [] },
  ]);
  await everbeat.recovery.failStaleRunning({ ids: [id] });
  expect((await everbeat.tasks.show(id)).attempts).toMatchObject([{ attempt: 1, postMortem: SENTENCE }]);
  expect((await everbeat.recovery.explain(id)).summary).toContain(SENTENCE);
});

test("a later failure is not explained by the death of an earlier attempt, and each death is shown with its attempt", async () => {
  const id = await everbeat.enqueue(noop, 1);
  const death = await runAndDie(id);
  await everbeat.recovery.failStaleRunning({ ids: [id] });
  await database.query("delete from everbeat.post_mortem where task_id = $1", [id]);
  await examined(death);
  await everbeat.tasks.retry([id]);
  await failNormally(id);
  const { stdout } = await here(["tasks", "show", id], at);
  expect(stdout).toMatch(/^post-mortem +attempt 1: The process was killed by somebody else\.$/m);
  expect((await everbeat.tasks.show(id)).attempts.map(({ postMortem }) => postMortem)).toEqual([SENTENCE, null]);
  expect(JSON.stringify(await everbeat.recovery.explain(id))).not.toContain(SENTENCE);

  await everbeat.tasks.retry([id]);
  await runAndDie(id);
  await everbeat.recovery.failStaleRunning({ ids: [id] });
  const { summary } = await everbeat.recovery.explain(id);
  expect(summary).toContain("its worker died while running it");
  expect(summary).not.toContain(SENTENCE);
  const [first, second, third] = (await everbeat.tasks.show(id)).attempts;
  expect([first?.postMortem, second?.postMortem]).toEqual([SENTENCE, null]);
  expect(third?.postMortem).toMatch(/\w/);
  expect(summary).toContain(third?.postMortem);
});

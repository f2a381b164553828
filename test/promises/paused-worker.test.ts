/** A process that stands still, as under SIGSTOP or in a suspended machine, while others go on: only its writes can be refused. */
import { describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startWorker, type WorkerProcess } from "../support/worker-process.ts";

const deaf = defineTask({ name: "deaf", run: async (_input: { how?: string }) => {} });

async function startHolding(database: CrashDatabase): Promise<WorkerProcess> {
  return startWorker({
    url: database.url,
    work: { pollInterval: 200, concurrency: 1, abortGrace: "1m" },
    tasks: [{ handler: "deaf" }],
    forward: ["claim.lost", "task.ended"],
  });
}

/** The first worker stands still in the middle of the task, which is taken away and run to its end by the second. */
async function takenAway(how: string) {
  const database = await openCrashDatabase();
  const first = await startHolding(database);
  const id = await database.everbeat.enqueue(deaf, { how });
  await first.heard({ handler: "begun" });
  first.signal("SIGSTOP");
  const { claimId: lostClaim } = await database.everbeat.tasks.show(id);
  expect(await database.everbeat.tasks.retry(id)).toEqual([{ id, outcome: "held" }]);
  expect(await database.everbeat.tasks.retry(id, { force: true })).toEqual([{ id, outcome: "taken" }]);
  const second = await startHolding(database);
  await second.heard({ handler: "begun" });
  second.release();
  await database.everbeat.result(id, { timeout: 10_000 });
  // Waiting for it since before it went on, so that the handler's end and the worker's own look come in any order.
  first.release();
  first.signal("SIGCONT");
  return { database, first, second, id, lostClaim };
}

async function expectRefused({ database, first, second, id, lostClaim }: Awaited<ReturnType<typeof takenAway>>) {
  expect(await first.heard({ event: "claim.lost" })).toMatchObject({ taskId: id, claimId: lostClaim });
  expect(await first.heard({ handler: "aborted" })).toMatchObject({ code: "CLAIM_LOST" });
  const shown = await database.everbeat.tasks.show(id);
  expect(shown).toMatchObject({ state: "completed", replicaId: second.replicaId, attempt: 2 });
  expect(shown.attempts).toMatchObject([
    { claimId: lostClaim, replicaId: first.replicaId, outcome: "taken" },
    { claimId: shown.claimId, replicaId: second.replicaId, outcome: "completed" },
  ]);
  expect(first.messages.filter((message) => message.event === "task.ended")).toEqual([]);
  await database.expectSound();
}

describe("a task taken away from a worker that stands still", () => {
  test("its finish is refused, and kept as late", async () => {
    const taken = await takenAway("return");
    await expectRefused(taken);
    const late = await eventually(async () => (await taken.database.everbeat.tasks.show(taken.id)).late, {
      until: (rows) => rows.length > 0,
    });
    expect(late).toMatchObject([{ claimId: taken.lostClaim, replicaId: taken.first.replicaId, outcome: "completed" }]);
  });

  test.each([
    ["completeIn before", "EB001"],
    ["completeIn after", "CLAIM_LOST"],
    ["guard before", "EB001"],
    ["guard after", "CLAIM_LOST"],
  ])("its own transaction is rolled back (%s the stop)", async (how, code) => {
    const taken = await takenAway(how);
    expect(await taken.first.heard({ handler: "refused" })).toMatchObject({ code });
    await expectRefused(taken);
    const effects = await taken.database.query<{ claim_id: string }>("select claim_id from effect");
    const { claimId } = await taken.database.everbeat.tasks.show(taken.id);
    expect(effects).toEqual([{ claim_id: claimId }]);
  });
});

describe("a cancelled task whose worker does not answer", () => {
  test.each(["SIGSTOP", "SIGKILL"] as const)("is cancelled by another worker's upkeep after %s", async (signal) => {
    const database = await openCrashDatabase();
    const first = await startHolding(database);
    const id = await database.everbeat.enqueue(deaf, {});
    await first.heard({ handler: "begun" });
    if (signal === "SIGKILL") await first.kill();
    else first.signal(signal);
    expect(await database.everbeat.tasks.cancel(id, { grace: 0 })).toEqual([{ id, outcome: "cancelling" }]);
    const second = await startHolding(database);
    await eventually(async () => (await database.everbeat.tasks.show(id)).state === "cancelled", { within: 25_000 });
    // The slot of the second is free: it has nothing to do with the task.
    const next = await database.everbeat.enqueue(deaf, {});
    await second.heard({ handler: "begun", taskId: next });
    if (signal === "SIGSTOP") {
      first.release();
      first.signal("SIGCONT");
      expect(await first.heard({ event: "claim.lost" })).toMatchObject({ taskId: id });
    }
    expect(await database.everbeat.tasks.show(id)).toMatchObject({ state: "cancelled", attempt: 1 });
    await database.expectSound();
  });
});

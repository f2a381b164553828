/** A worker that was declared dead while it stood still wakes up in the middle of its work: nothing that it writes counts. */
import { expect, test, vi } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startWorker } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 90_000 });

/** Dead by silence after 10 s; on waking it has a second to stop what it has. */
const recovery = {
  ...{ claimerHeartbeatInterval: 500, claimedStaleThreshold: 10_000 },
  ...{ runnerHeartbeatInterval: 500, runningStaleThreshold: 10_000 },
  ...{ checkInterval: 100, sessionGrace: 4_000 },
};
const deaf = defineTask({ name: "deaf", run: async (_input: { how: string }) => {} });
/** How the handler writes, and what it is told. What the database says at commit reaches the handler as it is. */
const WAYS = {
  return: undefined,
  "guard before": "EB001",
  "completeIn before": "EB001",
  "guard after": "CLAIM_LOST",
  "completeIn after": "CLAIM_LOST",
} as const;

test("a zombie's outcomes are refused and kept as late, its own transactions fail, its handlers are told, and it has a new id", async () => {
  const database = await openCrashDatabase();
  const { everbeat } = database;
  const options = {
    ...{ url: database.url, open: { recovery }, work: { pollInterval: 200, concurrency: 5, abortGrace: 60_000 } },
    tasks: [{ handler: "deaf", onCrash: "requeue" }],
    forward: ["claim.lost", "task.ended", "task.recovered", "replica.rejoined", "replica.fenced", "beat.refused"],
  } as const;
  const zombie = await startWorker(options);
  const ways = Object.keys(WAYS) as (keyof typeof WAYS)[];
  const ids = await everbeat.enqueueMany(
    deaf,
    ways.map((how) => ({ how })),
  );
  for (const taskId of ids) await zombie.heard({ handler: "begun", taskId });
  const shown = () => Promise.all(ids.map((id) => everbeat.tasks.show(id)));
  const lostClaims = (await shown()).map(({ claimId }) => claimId);
  const heir = await startWorker(options);
  zombie.signal("SIGSTOP");
  for (const taskId of ids) await heir.heard({ handler: "begun", taskId }, 30_000);
  const claims = (await shown()).map(({ claimId }) => claimId);

  // Its handlers go on in the very moment in which it wakes, whatever it has noticed by then.
  zombie.release();
  zombie.signal("SIGCONT");
  const { replicaId: renamed } = await zombie.heard({ event: "replica.rejoined", before: zombie.replicaId }, 30_000);
  expect(renamed).not.toBe(zombie.replicaId);
  for (const [index, id] of ids.entries()) {
    const code = WAYS[ways[index] as keyof typeof WAYS];
    if (code) expect(await zombie.heard({ handler: "refused", taskId: id })).toMatchObject({ code });
    expect((await zombie.heard({ handler: "aborted", taskId: id })).code).toMatch(/^(CLAIM_LOST|CUT_OFF)$/);
    expect(await zombie.heard({ event: "claim.lost", taskId: id })).toMatchObject({ claimId: lostClaims[index] });
  }
  const [returned] = ids;
  const late = await eventually(async () => (await everbeat.tasks.show(returned as string)).late, {
    until: (rows) => rows.length > 0,
  });
  expect(late).toMatchObject([{ claimId: lostClaims[0], outcome: "completed" }]);
  // All of it is as the heir has it: recovered once, and none of the zombie's effects is there.
  for (const [index, task] of (await shown()).entries()) {
    expect(task).toMatchObject({ state: "running", attempt: 2, replicaId: heir.replicaId, claimId: claims[index] });
    expect(task.attempts).toMatchObject([{ outcome: "crashed", replicaId: zombie.replicaId }, {}]);
  }
  expect(await database.count("effect")).toBe(0);
  expect(zombie.messages.filter(({ event }) => event === "task.ended")).toEqual([]);
  expect(heir.messages.filter(({ event }) => event === "task.recovered")).toHaveLength(ids.length);

  heir.release();
  for (const id of ids) await everbeat.result(id, { timeout: 20_000 });
  const effects = await database.query<{ claim_id: string }>("select claim_id::text from effect");
  expect(effects.map((effect) => effect.claim_id).sort()).toEqual(claims.slice(1).sort());
  await database.expectSound();
});

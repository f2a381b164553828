/**
 * A claim id alone is no right. Here the database has forgotten a claim and issues its id again, for another task: whoever holds the
 * forgotten one writes nothing about that task. (That ids do not come back is another protection, see epoch.test.ts.)
 */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, test } from "vitest";
import { createClaimHandle } from "../../src/runner/claim-handle.ts";
import { endBlockedReplica, noteBlockedLoop } from "../../src/sql/blocked-loops.ts";
import { adoptClaims, type ClaimedTask, rehomeClaims, startClaims } from "../../src/sql/claims.ts";
import { endClaims, type Outcome } from "../../src/sql/outcomes.ts";
import { writeProgress } from "../../src/sql/progress.ts";
import { recoverClaims } from "../../src/sql/recover-claims.ts";
import { noteRunners } from "../../src/sql/runners.ts";
import { endStalled } from "../../src/sql/stalls.ts";
import { defineTask } from "../../src/task/define-task.ts";
import type { TaskId } from "../../src/task/ids.ts";
import { NO_PROGRESS } from "../../src/task/progress.ts";
import { HeldOutcomes } from "../../src/worker/held-outcomes.ts";
import type { OutcomeStatus } from "../../src/worker/rounds.ts";
import { completed, handClaimer, releaseClaims } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const owner = handClaimer(everbeat.database, ["noop"]);

async function claimOne(demand: { run: number; prefetch: number }): Promise<ClaimedTask> {
  const queue = randomUUID();
  await everbeat.enqueue(noop, 1, { queue });
  const [task] = await owner.claim({ queues: [queue], room: [null], ...demand });
  return task as ClaimedTask;
}

/** Two tasks under one claim id: the first as its worker remembers it, the second as the database knows it. */
async function issuedAgain(state: "claimed" | "running" = "running") {
  const demand = state === "running" ? { run: 1, prefetch: 0 } : { run: 0, prefetch: 1 };
  const forgotten = await claimOne(demand);
  await forget(forgotten);
  const held = await claimOne(demand);
  expect(held.claimId).toBe(forgotten.claimId);
  return { forgotten, held };
}

async function forget({ claimId, taskId }: ClaimedTask): Promise<void> {
  await database.query("delete from everbeat.running where task_id = $1", [taskId]);
  await database.query("select setval('everbeat.claim_id', $1::bigint - 1)", [claimId]);
}

const rowOf = async (taskId: TaskId) =>
  (
    await database.query("select state, replica_id, runner_id, gated from everbeat.running where task_id = $1", [
      taskId,
    ])
  )[0];
const untouched = (state: "claimed" | "running") => ({
  state,
  replica_id: owner.replicaId,
  runner_id: null,
  gated: false,
});

function failed({ claimId, taskId }: ClaimedTask): Outcome {
  const error = { code: "X", message: "x" };
  return { claim: claimId, task: taskId, replica: owner.replicaId, to: "failed", outcome: "failed", error };
}

describe("an outcome for the forgotten task", () => {
  test.each([
    ["completed", (task: ClaimedTask) => completed(task, owner.replicaId)],
    ["completed with a result", (task: ClaimedTask) => completed(task, owner.replicaId, "1")],
    ["failed", failed],
  ])("%s: is late, and ends nothing", async (_, outcomeOf) => {
    const { forgotten, held } = await issuedAgain();
    expect((await endClaims(everbeat.database, [outcomeOf(forgotten)])).late).toEqual([forgotten.claimId]);
    expect(await rowOf(held.taskId)).toEqual(untouched("running"));
    expect((await endClaims(everbeat.database, [completed(held, owner.replicaId)])).late).toEqual([]);
  });

  test.each([
    ["nothing but completions", (task: ClaimedTask) => completed(task, owner.replicaId)],
    ["others", failed],
  ])("does not keep those beside it from being written, in a batch of %s", async (_, outcomeOf) => {
    const before = await claimOne({ run: 1, prefetch: 0 });
    const { forgotten, held } = await issuedAgain();
    const after = await claimOne({ run: 1, prefetch: 0 });
    const outcomes = [before, forgotten, after].map(outcomeOf);
    await expect(endClaims(everbeat.database, outcomes)).rejects.toMatchObject({ code: "EB004" });
    const verdicts = new Map<Outcome, OutcomeStatus>();
    new HeldOutcomes<{ outcome: Outcome }>({
      write: async (some) => {
        const { late } = await endClaims(everbeat.database, some);
        return some.map(({ claim }) => (late.includes(claim) ? "late" : "done"));
      },
      findLocked: async () => new Set(),
      onStatuses: (ended, all) => {
        for (const [at, { outcome }] of ended.entries()) verdicts.set(outcome, all[at] as OutcomeStatus);
      },
      onTrouble: (error) => expect.unreachable(String(error)),
      onStuck: (_outcome, error) => expect.unreachable(String(error)),
      signal: new AbortController().signal,
    }).add(outcomes.map((outcome) => ({ outcome })));
    await eventually(() => verdicts.size === 3);
    expect(outcomes.map((outcome) => verdicts.get(outcome))).toEqual(["done", "late", "done"]);
    expect(await rowOf(held.taskId)).toEqual(untouched("running"));
  });

  test("does not complete the task that has its claim's id now", async () => {
    const { forgotten, held } = await issuedAgain();
    await endClaims(everbeat.database, [completed(forgotten, owner.replicaId, '"of the forgotten"')]);
    expect((await everbeat.tasks.show(held.taskId)).state).toBe("running");
  });

  test("is no repetition of what the other task's attempt has written", async () => {
    const { forgotten, held } = await issuedAgain();
    const again = (task: ClaimedTask): Outcome => ({ ...failed(task), to: "pending" });
    expect((await endClaims(everbeat.database, [again(held)])).late).toEqual([]);
    const report = await endClaims(everbeat.database, [again(forgotten)]);
    expect(report).toMatchObject({ repeated: [], late: [forgotten.claimId] });
  });
});

describe("a worker that holds the forgotten claim", () => {
  test("neither starts the other task nor gives it back, nor takes it along to another id", async () => {
    const { forgotten, held } = await issuedAgain("claimed");
    const other = handClaimer(everbeat.database, ["noop"]);
    await other.claim({ queues: [], room: [] });
    expect(await startClaims(everbeat.database, [forgotten])).toEqual({ started: [], locked: [] });
    expect(await releaseClaims(everbeat.database, [forgotten])).toEqual([]);
    expect(await rehomeClaims(everbeat.database, owner.replicaId, other.replicaId, [forgotten])).toEqual([]);
    expect(await rowOf(held.taskId)).toEqual(untouched("claimed"));
  });

  test("finds the other as a claim that it does not know", async () => {
    const { forgotten, held } = await issuedAgain();
    const found = await adoptClaims(everbeat.database, owner.replicaId, [forgotten]);
    expect(found.map(({ taskId }) => taskId)).toContain(held.taskId);
    const others = await adoptClaims(everbeat.database, owner.replicaId, [held]);
    expect(others.map(({ taskId }) => taskId)).not.toContain(held.taskId);
  });

  test("reports nothing about the other task: progress, its runner, a blocked loop, a stall, a suspicion", async () => {
    const { forgotten, held } = await issuedAgain();
    const { claimId: claim, taskId: task } = forgotten;
    await writeProgress(everbeat.database, [{ ...NO_PROGRESS, claim, task, phase: "x", isSign: true }]);
    expect(await database.query("select from everbeat.progress where task_id = $1", [held.taskId])).toEqual([]);

    const runnerId = randomUUID();
    const runner = { id: runnerId, kind: "thread", pid: 1, ageMs: 1, silentForMs: 0, status: "busy" } as const;
    await noteRunners(everbeat.database, owner.replicaId, [
      { ...runner, vitals: null, claims: [forgotten], exit: undefined },
    ]);
    const thread = { replicaId: owner.replicaId, runnerId, claims: [forgotten] };
    const sight = { blockedMs: 1, stack: undefined, pausedMs: undefined, message: "blocked" };
    const id = await noteBlockedLoop(everbeat.database, thread, undefined, sight);
    expect(await database.query("select tasks from everbeat.blocked_loop where id = $1", [id])).toEqual([
      { tasks: [] },
    ]);

    expect(await endStalled(everbeat.database, [{ outcome: failed(forgotten), stalledAfterMs: -1 }])).toEqual([]);
    const suspects = [{ claim, task, isCharged: true, isApart: true }];
    const recovered = await recoverClaims(everbeat.database, owner.replicaId, [failed(forgotten)], suspects);
    expect(recovered.done).toEqual([]);
    expect(await database.query("select from everbeat.suspicion where task_id = $1", [task])).toEqual([]);
    expect(await rowOf(held.taskId)).toEqual(untouched("running"));
  });

  test("ends nothing but what it was at, when its heart ends its process", async () => {
    const { forgotten, held } = await issuedAgain();
    await endBlockedReplica(everbeat.database, owner.replicaId, {
      outcomes: [failed(forgotten)],
      death: { because: "loop-blocked" },
    });
    expect(await rowOf(held.taskId)).toEqual(untouched("running"));
    await database.query("update everbeat.replica set status = 'online' where id = $1", [owner.replicaId]);
    await database.query("update everbeat.heart set is_dead = false where replica_id = $1", [owner.replicaId]);
  });
});

describe("a transaction of its handler", () => {
  const handle = ({ claimId, taskId }: ClaimedTask) =>
    createClaimHandle({
      claimId,
      taskId,
      name: "noop",
      replicaId: owner.replicaId,
      schema: "everbeat",
      resultLimitBytes: 1_000,
    });

  async function transaction(work: (client: pg.Client) => Promise<unknown>): Promise<void> {
    const client = new pg.Client(database.url);
    await client.connect();
    try {
      await client.query("begin");
      await work(client);
      await client.query("commit");
    } finally {
      await client.end();
    }
  }

  test.each(["guard", "completeIn"] as const)("is refused %s by the forgotten claim", async (method) => {
    const { forgotten, held } = await issuedAgain();
    await transaction((tx) => expect(handle(forgotten)[method](tx, 1)).rejects.toMatchObject({ code: "CLAIM_LOST" }));
    expect(await rowOf(held.taskId)).toEqual(untouched("running"));
  });

  test.each(["guard", "completeIn"] as const)(
    "does not commit (%s) where its claim was issued again in between",
    async (method) => {
      const forgotten = await claimOne({ run: 1, prefetch: 0 });
      let held: ClaimedTask | undefined;
      const committing = transaction(async (tx) => {
        await handle(forgotten)[method](tx, 1);
        await forget(forgotten);
        held = await claimOne({ run: 1, prefetch: 0 });
        expect(held.claimId).toBe(forgotten.claimId);
      });
      await expect(committing).rejects.toMatchObject({ code: "EB001" });
      expect(await rowOf(held?.taskId as TaskId)).toEqual(untouched("running"));
    },
  );
});

import { randomUUID } from "node:crypto";
import pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { createClaimHandle } from "../../src/runner/claim-handle.ts";
import { rehomeClaims } from "../../src/sql/claims.ts";
import type { Transaction } from "../../src/task/context.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { completed, handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const claimer = handClaimer(everbeat.database, ["noop"]);
const running = async (options = {}) => {
  const queue = `q-${randomUUID()}`;
  await everbeat.enqueue(noop, 1, { queue, ...options });
  const [task] = await claimer.claim({ queues: [queue], room: [null] });
  if (!task) throw new Error("nothing was claimed");
  return task;
};

describe("an outcome", () => {
  test("ends the task, with its attempt on record", async () => {
    const task = await running();
    await claimer.complete(task, '{"ok":true}');
    expect(await everbeat.tasks.show(task.taskId)).toMatchObject({
      state: "completed",
      result: { ok: true },
      attempts: [{ claimId: task.claimId, outcome: "completed", attempt: 1, replicaId: claimer.replicaId }],
    });
  });

  test("without a result is on record alike, whether all of its batch are so or some have more to say", async () => {
    const [alone, beside, other] = [await running(), await running(), await running()];
    await claimer.complete(alone);
    await claimer.end([completed(beside, claimer.replicaId), completed(other, claimer.replicaId, '"more"')]);
    const onRecord = (taskId: string) =>
      database.query(
        `select state, replica_id, attempt, failures, crashes, claimed_at = started_at as "isAtOnce", ended_at >= started_at as "isOver",
                result::text, error from everbeat.ended where task_id = $1`,
        [taskId],
      );
    expect(await onRecord(alone.taskId)).toEqual([
      {
        ...{ state: "completed", replica_id: claimer.replicaId, attempt: 1, failures: 0, crashes: 0 },
        ...{ isAtOnce: true, isOver: true, result: "null", error: null },
      },
    ]);
    expect(await onRecord(beside.taskId)).toEqual(await onRecord(alone.taskId));
  });

  test("said twice is recognised as the same", async () => {
    const task = await running();
    expect(await claimer.complete(task, "1")).toEqual({ repeated: [], late: [], hasUnparked: false });
    expect(await claimer.complete(task, "1")).toEqual({ repeated: [task.claimId], late: [], hasUnparked: false });
    const retried = await running();
    const failed = {
      ...completed(retried, claimer.replicaId),
      to: "pending",
      outcome: "failed",
      error: { code: "X", message: "x" },
    } as const;
    expect((await claimer.end([failed])).repeated).toEqual([]);
    expect((await claimer.end([failed])).repeated).toEqual([retried.claimId]);
  });

  test("counts for claims that were taken along to another id, and for others of the same batch that were not", async () => {
    const [taken, left] = [await running(), await running()];
    const next = handClaimer(everbeat.database, ["noop"]);
    await next.claim({ queues: [], room: [] });
    await rehomeClaims(everbeat.database, claimer.replicaId, next.replicaId, [taken]);
    const report = await claimer.end([completed(taken, claimer.replicaId), completed(left, claimer.replicaId)]);
    expect(report).toEqual({ repeated: [], late: [], hasUnparked: false });
    expect(await everbeat.tasks.show(taken.taskId)).toMatchObject({
      state: "completed",
      attempts: [{ replicaId: next.replicaId }],
    });
    expect((await everbeat.tasks.show(left.taskId)).state).toBe("completed");
  });

  test("of a lost claim is refused and kept as late, and the others of its batch are written", async () => {
    const [lost, fine] = [await running(), await running()];
    await everbeat.tasks.retry(lost.taskId, { force: true });
    const report = await claimer.end([
      completed(lost, claimer.replicaId, '"zombie"'),
      completed(fine, claimer.replicaId),
    ]);
    expect(report).toEqual({ repeated: [], late: [lost.claimId], hasUnparked: false });
    expect(await everbeat.tasks.show(lost.taskId)).toMatchObject({
      state: "pending",
      attempts: [{ outcome: "taken", error: { code: "CLAIM_TAKEN" } }],
      late: [{ claimId: lost.claimId, outcome: "completed" }],
    });
    expect((await everbeat.tasks.show(fine.taskId)).state).toBe("completed");
  });

  test("that differs from the one on record is late, not a repetition", async () => {
    const task = await running();
    await claimer.complete(task, "1");
    expect((await claimer.complete(task, "2")).late).toEqual([task.claimId]);
    expect((await everbeat.tasks.show(task.taskId)).result).toBe(1);
  });

  test("of attempt one cannot end attempt two", async () => {
    const task = await running();
    await everbeat.tasks.retry(task.taskId, { force: true });
    const [second] = await claimer.claim({ queues: [task.queue], room: [null] });
    expect(second).toMatchObject({ taskId: task.taskId, attempt: 2 });
    expect((await claimer.complete(task)).late).toEqual([task.claimId]);
    expect((await everbeat.tasks.show(task.taskId)).state).toBe("running");
    expect(Number(second?.claimId)).toBeGreaterThan(Number(task.claimId));
  });

  test("that asks for another attempt puts the task back, later, with what it has spent", async () => {
    const task = await running();
    await claimer.end([
      {
        ...completed(task, claimer.replicaId),
        to: "pending",
        outcome: "failed",
        failures: 1,
        delayMs: 60_000,
        error: { code: "E", message: "m", stack: "at x" },
      },
    ]);
    const shown = await everbeat.tasks.show(task.taskId);
    expect(shown).toMatchObject({
      state: "pending",
      attempt: 1,
      failures: 1,
      attempts: [{ outcome: "failed", error: { stack: "at x" } }],
    });
    expect(shown.runAt.getTime()).toBeGreaterThan(Date.now() + 50_000);
  });
});

describe("the claim in the handler's own transaction", () => {
  beforeAll(async () => void (await database.query("create table effects (claim_id text)")));
  const handle = (task: Awaited<ReturnType<typeof running>>) =>
    createClaimHandle({
      claimId: task.claimId,
      taskId: task.taskId,
      name: task.name,
      replicaId: claimer.replicaId,
      schema: everbeat.database.schema,
      resultLimitBytes: 1_000,
      settle: async () => {},
    });
  const effects = (claimId: string) => database.query("select from effects where claim_id = $1", [claimId]);
  const transaction = async (work: (tx: pg.Client) => Promise<void>) => {
    const client = new pg.Client(database.url);
    await client.connect();
    try {
      await client.query("begin");
      await work(client);
      await client.query("commit");
    } finally {
      await client.end();
    }
  };

  test("completes the task together with its effects", async () => {
    const task = await running();
    await transaction(async (tx) => {
      await tx.query("insert into effects values ($1)", [task.claimId]);
      await handle(task).completeIn(tx, { done: 1 });
      expect((await everbeat.tasks.show(task.taskId)).state).toBe("running");
    });
    expect(await everbeat.tasks.show(task.taskId)).toMatchObject({ state: "completed", result: { done: 1 } });
    expect(await effects(task.claimId)).toHaveLength(1);
  });

  test("completes nothing if the transaction rolls back", async () => {
    const task = await running();
    await expect(
      transaction(async (tx) => {
        await handle(task).completeIn(tx, 1);
        throw new Error("changed my mind");
      }),
    ).rejects.toThrow("changed my mind");
    expect((await everbeat.tasks.show(task.taskId)).state).toBe("running");
  });

  test.each(["guard", "completeIn"] as const)(
    "%s is refused at once where the claim is lost, and the transaction cannot commit",
    async (method) => {
      const task = await running();
      await everbeat.tasks.retry(task.taskId, { force: true });
      await transaction(async (tx) => {
        await tx.query("insert into effects values ($1)", [task.claimId]);
        const attempt = method === "guard" ? handle(task).guard(tx) : handle(task).completeIn(tx, 1);
        await expect(attempt).rejects.toMatchObject({ code: "CLAIM_LOST", claimId: task.claimId });
      });
      expect(await effects(task.claimId)).toHaveLength(0);
    },
  );

  test.each(["guard", "completeIn"] as const)(
    "%s is refused at commit where the claim is lost in between, and does not hold up whoever takes it",
    async (method) => {
      const task = await running();
      const committing = transaction(async (tx) => {
        await tx.query("insert into effects values ($1)", [task.claimId]);
        await (method === "guard" ? handle(task).guard(tx) : handle(task).completeIn(tx, 1));
        expect(await everbeat.tasks.retry(task.taskId, { force: true })).toEqual([
          { id: task.taskId, outcome: "taken" },
        ]);
      });
      await expect(committing).rejects.toMatchObject({ code: "EB001" });
      expect(await effects(task.claimId)).toHaveLength(0);
      expect((await everbeat.tasks.show(task.taskId)).state).toBe("pending");
    },
  );

  test("guard lets the transaction of a claim that holds commit", async () => {
    const task = await running();
    await transaction(async (tx) => {
      await handle(task).guard(tx);
      await tx.query("insert into effects values ($1)", [task.claimId]);
    });
    expect(await effects(task.claimId)).toHaveLength(1);
    expect((await everbeat.tasks.show(task.taskId)).state).toBe("running");
    expect(await database.query("select from everbeat.commit_check")).toEqual([]);
  });

  test.each([
    ["nothing", undefined],
    ["something that takes no statements", {}],
  ])("guard and completeIn in %s are refused with what a transaction must have", async (_, given) => {
    const task = await running();
    const tx = given as unknown as Transaction;
    const refusal = {
      code: "INVALID_OPTIONS",
      message: expect.stringContaining("must have a function query(text, values)"),
    };
    await expect(handle(task).guard(tx)).rejects.toMatchObject(refusal);
    await expect(handle(task).completeIn(tx, 1)).rejects.toMatchObject(refusal);
  });

  test("a result that cannot be stored is refused before anything is written", async () => {
    const task = await running();
    await transaction(async (tx) => {
      await expect(handle(task).completeIn(tx, 1n)).rejects.toMatchObject({ code: "RESULT_NOT_STORABLE" });
      await expect(handle(task).completeIn(tx, "x".repeat(2_000))).rejects.toMatchObject({
        code: "RESULT_NOT_STORABLE",
      });
    });
  });
});

import { randomUUID } from "node:crypto";
import pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { createClaimHandle } from "../../src/runner/claim-handle.ts";
import { runUpkeep } from "../../src/sql/upkeep.ts";
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
const upkeep = (retention = {}) =>
  runUpkeep(everbeat.database, { maxAgeMs: undefined, maxCount: undefined, ...retention }, 100);

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

describe("cancel", () => {
  test("ends what is pending, parked or claimed at once, and tells what runs", async () => {
    const queue = `q-${randomUUID()}`;
    const ids = await everbeat.enqueueMany(noop, [1, 2, 3, 4], {
      options: (n) => ({ queue, ...((n as number) < 3 ? { exclusiveKey: queue } : {}) }),
    });
    await claimer.claim({ queues: [queue], room: [null], run: 1, prefetch: 1 });
    const answers = await everbeat.tasks.cancel(ids, { reason: "no longer wanted" });
    const outcome = Object.fromEntries(answers.map((answer) => [ids.indexOf(answer.id as never), answer.outcome]));
    expect(outcome).toEqual({ 0: "cancelling", 1: "cancelled", 2: "cancelled", 3: "cancelled" });
    expect(await everbeat.tasks.show(ids[1] as string)).toMatchObject({
      state: "cancelled",
      error: { code: "TASK_CANCELLED", message: "no longer wanted" },
    });
    expect(await everbeat.tasks.show(ids[0] as string)).toMatchObject({ state: "running", isCancelling: true });
  });

  test("of what has ended, or never was, changes nothing and says so", async () => {
    const task = await running();
    await claimer.complete(task);
    const nobody = randomUUID();
    const answers = await everbeat.tasks.cancel([task.taskId, nobody]);
    expect(new Map(answers.map((answer) => [answer.id as string, answer.outcome as string]))).toEqual(
      new Map<string, string>([
        [task.taskId, "ended"],
        [nobody, "unknown"],
      ]),
    );
  });

  test("is forced by upkeep where the worker does not answer", async () => {
    const task = await running();
    await everbeat.tasks.cancel(task.taskId, { grace: 0 });
    await upkeep();
    expect((await everbeat.tasks.show(task.taskId)).state).toBe("running");
    await database.query("update everbeat.running set cancel_force_at = now() - interval '10 s' where claim_id = $1", [
      task.claimId,
    ]);
    await upkeep();
    expect((await everbeat.tasks.show(task.taskId)).state).toBe("cancelled");
    expect((await claimer.complete(task)).late).toEqual([task.claimId]);
  });

  test.each([[{}], [{ name: undefined }]])(
    "refuses a filter that says nothing (%#): it would mean everything",
    async (filter) => {
      await expect(everbeat.tasks.cancel(filter)).rejects.toThrow(/it is not said which tasks/);
      await expect(everbeat.tasks.retry(filter)).rejects.toThrow(/it is not said which tasks/);
      await expect(everbeat.tasks.retry(["x", "y"])).rejects.toThrow(/"x".*"y"/s);
    },
  );

  test("by filter takes those that fit and no others", async () => {
    const queue = `q-${randomUUID()}`;
    await everbeat.enqueueMany(
      noop,
      Array.from({ length: 1_200 }, () => 1),
      { options: { queue } },
    );
    expect(await everbeat.tasks.cancel({ queue })).toHaveLength(1_200);
    expect((await everbeat.tasks.list({ queue, state: "pending" })).tasks).toEqual([]);
  });

  test("against claims and retries going on at once leaves every task in exactly one place", async () => {
    const queue = `q-${randomUUID()}`;
    const ids = await everbeat.enqueueMany(
      noop,
      Array.from({ length: 300 }, () => 1),
      { options: (_, n) => ({ queue, ...(n % 3 ? {} : { exclusiveKey: `${queue}-${n % 2}` }) }) },
    );
    const churn = async () => {
      for (let round = 0; round < 8; round++) {
        const claimed = await claimer.claim({ queues: [queue], room: [null], run: 20, prefetch: 20 });
        await claimer.end(
          claimed.map((task, index) => ({
            ...completed(task, claimer.replicaId),
            ...(index % 2 ? { to: "pending" as const, outcome: "failed" as const } : {}),
          })),
        );
      }
    };
    const cancel = async () => {
      for (let from = 0; from < 300; from += 30) await everbeat.tasks.cancel(ids.slice(from, from + 30), { grace: 0 });
    };
    const retry = async () => {
      for (let from = 300; from > 0; from -= 30)
        await everbeat.tasks.retry(ids.slice(from - 30, from), { force: true });
    };
    await Promise.all([churn(), churn(), cancel(), retry(), upkeep()]);
    const places = await database.query<{ places: number }>(
      `select (select count(*) from everbeat.ready where task_id = t.id) + (select count(*) from everbeat.parked where task_id = t.id)
            + (select count(*) from everbeat.running where task_id = t.id) + (select count(*) from everbeat.ended where task_id = t.id) as places
       from everbeat.task t where queue = $1`,
      [queue],
    );
    expect(places).toHaveLength(300);
    expect(places.every((row) => Number(row.places) === 1)).toBe(true);
  });
});

describe("retry", () => {
  test("gives a failed task a new start, and keeps what happened before", async () => {
    const task = await running();
    await claimer.end([
      {
        ...completed(task, claimer.replicaId),
        to: "failed",
        outcome: "failed",
        failures: 3,
        error: { code: "E_BAD", message: "bad" },
      },
    ]);
    expect(await everbeat.tasks.retry({ name: "noop", state: "failed", errorCode: "E_BAD" })).toEqual([
      { id: task.taskId, outcome: "pending" },
    ]);
    expect(await everbeat.tasks.show(task.taskId)).toMatchObject({
      state: "pending",
      failures: 0,
      attempts: [{ outcome: "failed", error: { code: "E_BAD" } }],
    });
    const [again] = await claimer.claim({ queues: [task.queue], room: [null] });
    expect(again).toMatchObject({ attempt: 2, failures: 0 });
  });

  test("makes a pending task due, leaves a running one unless forced, and what has ended otherwise", async () => {
    const queue = `q-${randomUUID()}`;
    const delayed = await everbeat.enqueue(noop, 1, { queue, delay: "1h" });
    const task = await running();
    const done = await running();
    await claimer.complete(done);
    const answers = await everbeat.tasks.retry([delayed, task.taskId, done.taskId, randomUUID()]);
    expect(answers.map((answer) => answer.outcome).sort()).toEqual(["due", "ended", "held", "unknown"]);
    expect(await claimer.claim({ queues: [queue], room: [null] })).toHaveLength(1);
  });
});

describe("looking tasks up", () => {
  test("pages through all that fit, newest first, without a gap while more come in", async () => {
    const queue = `q-${randomUUID()}`;
    const ids = await everbeat.enqueueMany(
      noop,
      Array.from({ length: 25 }, (_, n) => n),
      { options: { queue } },
    );
    const seen: string[] = [];
    let before: string | undefined;
    do {
      const page = await everbeat.tasks.list({ queue, limit: 10, ...(before ? { before } : {}) });
      seen.push(...page.tasks.map((task) => task.id));
      before = page.next;
      await everbeat.enqueue(noop, "new", { queue });
    } while (before);
    expect(seen).toEqual([...ids].reverse());
  });

  test.each([
    [{ state: "lost" }],
    [{ limit: 0 }],
    [{ befor: "x" }],
    [{ before: "not an id" }],
    [{ createdAfter: "yesterday-ish" }],
  ])("refuses %j", async (query) => {
    await expect(everbeat.tasks.list(query as never)).rejects.toThrow(/cannot be used as given/);
  });

  test("by an id that is none says so", async () => {
    await expect(everbeat.tasks.show("7")).rejects.toThrow(/is a UUID/);
    await expect(everbeat.tasks.show(randomUUID())).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
  });
});

describe("retention", () => {
  test("removes ended tasks by age, with everything that belongs to them, and nothing else", async () => {
    const [old, young, alive] = [await running({ uniqueKey: "gone" }), await running(), await running()];
    await claimer.complete(old);
    await claimer.complete(old, '"late"');
    await claimer.complete(young);
    await database.query("update everbeat.ended set ended_at = now() - interval '2 hours' where task_id = $1", [
      old.taskId,
    ]);
    expect((await upkeep({ maxAgeMs: 3_600_000 }))?.purged).toBe(1);
    await expect(everbeat.tasks.show(old.taskId)).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
    for (const table of ["late", "attempt", "unique_hold"])
      expect(await database.query(`select from everbeat.${table} where task_id = $1`, [old.taskId])).toEqual([]);
    expect((await everbeat.tasks.show(young.taskId)).state).toBe("completed");
    expect((await everbeat.tasks.show(alive.taskId)).state).toBe("running");
  });

  test("keeps no more than so many, the newest, and works in small batches", async () => {
    while ((await runUpkeep(everbeat.database, { maxAgeMs: undefined, maxCount: 3 }, 2))?.purged) {
      // Each turn removes two at the most.
    }
    expect(await database.query("select from everbeat.ended")).toHaveLength(3);
  });
});

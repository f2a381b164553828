/** Orders about tasks: cancel and retry, by id and by filter. */
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { runUpkeep } from "../../src/sql/upkeep.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { completed, failed, handClaimer } from "../support/claims.ts";
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
const upkeep = () => runUpkeep(everbeat.database, 100);

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

describe("an order to many", () => {
  const many = async (count: number) => {
    const queue = `q-${randomUUID()}`;
    const inputs = Array.from({ length: count }, (_, n) => n);
    return { queue, ids: await everbeat.enqueueMany(noop, inputs, { options: { queue } }) };
  };

  /** Runs `before` ahead of each of its statements. */
  const watched = async <T>(before: (text: string) => unknown, order: () => Promise<T>): Promise<T> => {
    const query = everbeat.database.query;
    everbeat.database.query = async (text, ...more) => {
      await before(text);
      return query.call(everbeat.database, text, ...more) as never;
    };
    return order().finally(() => {
      everbeat.database.query = query;
    });
  };

  test("searches all tasks once for each state, and says how far it has come", async () => {
    const { queue, ids } = await many(1_234);
    const asked: string[] = [];
    const told: unknown[] = [];
    const answers = await watched(
      (text) => asked.push(text),
      () => everbeat.tasks.cancel({ queue }, { onProgress: (progress) => told.push(progress) }),
    );
    expect(new Set(answers.map(({ id }) => id))).toEqual(new Set(ids));
    expect(told).toEqual([0, 500, 1_000, 1_234].map((done) => ({ done, of: 1_234 })));
    const searches = asked.filter((text) => text.includes(".tasks t") && !text.includes("t.id = any"));
    expect(searches).toHaveLength(3);
  });

  test("refuses at once a state that it can never change, and says which it can", async () => {
    const refused = (problem: RegExp) => ({ code: "INVALID_OPTIONS", problems: [expect.stringMatching(problem)] });
    for (const state of ["completed", "cancelled", "expired"] as const)
      for (const force of [false, true])
        await expect(everbeat.tasks.retry({ state }, { force })).rejects.toMatchObject(
          refused(/^state: a task that is \w+ cannot be run again; failed and pending ones can, and with force also/),
        );
    for (const state of ["claimed", "running"] as const) {
      await expect(everbeat.tasks.retry({ state })).rejects.toMatchObject(refused(/^state: a worker holds .* force/));
      expect(await everbeat.tasks.retry({ state, name: "of-nobody" }, { force: true })).toEqual([]);
    }
    for (const state of ["completed", "failed", "cancelled", "expired"] as const)
      await expect(everbeat.tasks.cancel({ state })).rejects.toMatchObject(
        refused(/^state: .* has ended and cannot be cancelled; pending, claimed and running ones can$/),
      );
    for (const state of ["pending", "failed"] as const)
      expect(await everbeat.tasks.retry({ state, name: "of-nobody" })).toEqual([]);
  });

  test("leaves alone what no longer fits when its turn comes", async () => {
    const { queue, ids } = await many(1_200);
    let claimed: readonly { taskId: string }[] = [];
    const answers = await watched(
      async (text) => {
        // The newest are cancelled first, and the oldest is claimed first.
        if (text.includes("cancel_tasks") && claimed.length === 0)
          claimed = await claimer.claim({ queues: [queue], room: [null], run: 1 });
      },
      () => everbeat.tasks.cancel({ queue, state: "pending" }),
    );
    expect(claimed.map(({ taskId }) => taskId)).toEqual(ids.slice(0, 1));
    expect(answers).toHaveLength(1_199);
    expect(await everbeat.tasks.show(ids[0] as string)).toMatchObject({ state: "running", isCancelling: false });
  });

  test("orders no task whose state is another by then, where the filter names none", async () => {
    const { queue, ids } = await many(600);
    const tasks = await claimer.claim({ queues: [queue], room: [null], run: 600 });
    await claimer.end(tasks.map((task) => failed(task, claimer.replicaId)));
    // The newest are retried first. Meanwhile somebody else has retried the oldest, to be run later.
    const oldest = ids[0] as string;
    let isLater = false;
    const answers = await watched(
      async (text) => {
        if (!text.includes("retry_tasks") || isLater) return;
        isLater = true;
        await everbeat.tasks.retry(oldest);
        await database.query("update everbeat.ready set run_at = now() + interval '1 hour' where task_id = $1", [
          oldest,
        ]);
      },
      () => everbeat.tasks.retry({ queue }),
    );
    expect(answers.map(({ id }) => id)).not.toContain(oldest);
    expect(answers).toHaveLength(599);
    expect((await everbeat.tasks.show(oldest)).runAt.getTime()).toBeGreaterThan(Date.now() + 60_000);
  });
});

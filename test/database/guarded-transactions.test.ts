/** What a handler's own transaction may ask of its claim, in which order, and what holds whatever the session is set to. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { createClaimHandle } from "../../src/runner/claim-handle.ts";
import type { ClaimedTask } from "../../src/sql/claims.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const claimer = handClaimer(everbeat.database, ["noop"]);
await database.query("create table effects (claim bigint)");

async function running(options: { exclusiveKey?: string; queue?: string } = {}): Promise<ClaimedTask> {
  const queue = options.queue ?? randomUUID();
  await everbeat.enqueue(noop, 1, { ...options, queue });
  const [task] = await claimer.claim({ queues: [queue], room: [null] });
  return task as ClaimedTask;
}

const handle = ({ claimId, taskId }: ClaimedTask) =>
  createClaimHandle({
    ...{ claimId, taskId, name: "noop", replicaId: claimer.replicaId, schema: "everbeat", resultLimitBytes: 1_000 },
  });
const stateOf = async ({ taskId }: ClaimedTask) => (await everbeat.tasks.show(taskId)).state;
const effects = async ({ claimId }: ClaimedTask) =>
  (await database.query("select from effects where claim = $1", [claimId])).length;
const take = ({ taskId }: ClaimedTask) => everbeat.tasks.retry(taskId, { force: true });

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(database.url);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** With an effect of the task in it. */
async function transaction(task: ClaimedTask, work: (tx: pg.Client) => Promise<unknown>, begin = "begin") {
  const client = await connect();
  await client.query(begin);
  await client.query("insert into effects values ($1)", [task.claimId]);
  await work(client);
  await client.query("commit");
}

describe("one transaction", () => {
  test("that completes its task may guard it before and after, as often as it likes", async () => {
    const task = await running();
    await transaction(task, async (tx) => {
      await handle(task).guard(tx);
      await handle(task).guard(tx);
      await handle(task).completeIn(tx, "done");
      await handle(task).guard(tx);
    });
    expect(await everbeat.tasks.show(task.taskId)).toMatchObject({ state: "completed", result: "done" });
    expect(await effects(task)).toBe(1);
    expect(await database.query("select from everbeat.commit_check")).toEqual([]);
  });

  test("may complete its task twice with the same result, which counts once", async () => {
    const task = await running();
    await transaction(task, async (tx) => {
      await handle(task).completeIn(tx, { a: "\u0000", b: "\ud83d" });
      await handle(task).completeIn(tx, { a: "\u0000", b: "\ud83d" });
    });
    expect(await stateOf(task)).toBe("completed");
    expect((await everbeat.tasks.show(task.taskId)).attempts).toHaveLength(1);
  });

  const half = "🫀".slice(1);
  test.each<[string, unknown, unknown]>([
    ["keys in another order", { a: 1, b: 2 }, { b: 2, a: 1 }],
    ["such keys further in", [{ a: { x: 1, y: [{ p: 1, q: 2 }] } }], [{ a: { y: [{ q: 2, p: 1 }], x: 1 } }]],
    ["such keys beside odd text", { a: `\0\\u0000${half}"\n`, b: 2 }, { b: 2, a: `\0\\u0000${half}"\n` }],
    ["such odd keys", { "\0": 1, [half]: 2, "\\": 3 }, { "\\": 3, [half]: 2, "\0": 1 }],
    ["what JSON leaves out", { a: 1, b: undefined }, { a: 1 }],
    ["nothing and null", undefined, null],
  ])("may complete its task again with the same result in other words: %s", async (_, first, second) => {
    const task = await running();
    await transaction(task, async (tx) => {
      await handle(task).completeIn(tx, first);
      await handle(task).completeIn(tx, second);
    });
    const [stored] = await database.query<{ result: string }>(
      "select result::text from everbeat.ended where task_id = $1",
      [task.taskId],
    );
    // What was said first is what is stored.
    expect(stored?.result).toBe(JSON.stringify(first ?? null));
  });

  test.each<[unknown, unknown]>([
    [1, 2],
    [1, "1"],
    [{ a: 1 }, { a: 1, b: null }],
    [
      [1, 2],
      [2, 1],
    ],
    ["\0", "\\u0000"],
    [half, "\ufffd"],
    ["\\u005c", "\\"],
    [{ "\0": 1 }, { "\\u0000": 1 }],
  ])("is refused another result (%j, then %j) at the call, and commits nothing", async (first, second) => {
    const task = await running();
    await transaction(task, async (tx) => {
      await handle(task).completeIn(tx, first);
      await expect(handle(task).completeIn(tx, second)).rejects.toMatchObject({ code: "COMPLETED_DIFFERENTLY" });
    });
    expect(await stateOf(task)).toBe("running");
    expect(await effects(task)).toBe(0);
  });

  test("that takes its completion back to a savepoint has not completed, and is guarded all the same", async () => {
    const task = await running();
    const undone = async (tx: pg.Client) => {
      await handle(task).guard(tx);
      await tx.query("savepoint here");
      await handle(task).completeIn(tx, 1);
      await tx.query("rollback to savepoint here");
    };
    await transaction(task, undone);
    expect(await stateOf(task)).toBe("running");
    const lost = transaction(task, async (tx) => {
      await undone(tx);
      await take(task);
    });
    await expect(lost).rejects.toMatchObject({ code: "EB001" });
    expect(await effects(task)).toBe(1);
  });

  test("of several tasks commits while all of them hold, those that go on and those that end", async () => {
    const [first, second, third] = [await running(), await running(), await running()];
    const all = async (tx: pg.Client) => {
      await handle(third).completeIn(tx, 3);
      await handle(first).guard(tx);
      await handle(second).completeIn(tx, 2);
    };
    const lost = transaction(first, async (tx) => {
      await all(tx);
      const other = await running();
      await handle(other).guard(tx);
      await take(other);
    });
    await expect(lost).rejects.toMatchObject({ code: "EB001" });
    await transaction(first, all);
    expect([await stateOf(first), await stateOf(second), await stateOf(third)]).toEqual([
      "running",
      "completed",
      "completed",
    ]);
    expect(await effects(first)).toBe(1);
  });
});

describe("outside of a transaction", () => {
  test.each(["guard", "completeIn"] as const)("%s is refused, which says what to do", async (method) => {
    const task = await running();
    const client = await connect();
    const asked = handle(task)[method](client, 1);
    await expect(asked).rejects.toMatchObject({ code: "NOT_IN_TRANSACTION", message: expect.stringMatching(/begin/) });
    expect(await stateOf(task)).toBe("running");
    // And the client can be used as before.
    await client.query("begin");
    await handle(task).completeIn(client, 1);
    await client.query("commit");
    expect(await stateOf(task)).toBe("completed");
  });

  test("a transaction that does nothing else is one all the same", async () => {
    const task = await running();
    const client = await connect();
    await client.query("begin");
    await handle(task).guard(client);
    await client.query("commit");
    await everbeat.database.transaction((tx) => handle(task).completeIn(tx as never, 1));
    expect(await stateOf(task)).toBe("completed");
  });
});

describe("the check at commit is made", () => {
  test.each([
    ["set session_replication_role = replica", "guard"],
    ["set session_replication_role = replica", "completeIn"],
    ["set constraints all immediate", "guard"],
    ["set constraints all immediate", "completeIn"],
  ] as const)("after %s (%s)", async (setting, method) => {
    const task = await running();
    const lost = transaction(task, async (tx) => {
      await tx.query(setting);
      await handle(task)[method](tx, 1);
      await take(task);
    });
    await expect(lost).rejects.toMatchObject({ code: "EB001" });
    expect(await effects(task)).toBe(0);
    const other = await running();
    await transaction(other, async (tx) => {
      await tx.query(setting);
      await handle(other)[method](tx, 1);
    });
    expect(await effects(other)).toBe(1);
    expect(await stateOf(other)).toBe(method === "guard" ? "running" : "completed");
  });
});

describe.each(["repeatable read", "serializable"])("at %s", (level) => {
  const begin = `begin isolation level ${level}`;

  test.each(["guard", "completeIn"] as const)("%s lets a transaction commit whose claim holds", async (method) => {
    const task = await running();
    await transaction(task, (tx) => handle(task)[method](tx, 1), begin);
    expect(await effects(task)).toBe(1);
    expect(await stateOf(task)).toBe(method === "guard" ? "running" : "completed");
  });

  test.each(["guard", "completeIn"] as const)(
    "%s fails a transaction whose claim is lost after its snapshot, before and after the call",
    async (method) => {
      for (const isBefore of [true, false]) {
        const task = await running();
        const lost = transaction(
          task,
          async (tx) => {
            if (isBefore) await take(task);
            await handle(task)[method](tx, 1);
            if (!isBefore) await take(task);
          },
          begin,
        );
        await expect(lost).rejects.toMatchObject({ code: "40001" });
        expect(await effects(task)).toBe(0);
        expect(await stateOf(task)).toBe("pending");
      }
    },
  );

  test("whoever came to wait for the task's exclusive key after the snapshot is let go when its worker asks what became of it", async () => {
    const key = { exclusiveKey: randomUUID(), queue: randomUUID() };
    const task = await running(key);
    await transaction(
      task,
      async (tx) => {
        await everbeat.enqueue(noop, 2, key);
        expect(await claimer.claim({ queues: [key.queue], room: [null] })).toEqual([]);
        await handle(task).completeIn(tx, 1);
      },
      begin,
    );
    const { claimId: claim, taskId, ...rest } = task;
    const unsure = {
      claim,
      task: taskId,
      replica: claimer.replicaId,
      to: "failed",
      outcome: "failed",
      confirm: true,
    } as const;
    expect((await claimer.end([unsure])).repeated).toEqual([claim]);
    const next = await claimer.claim({ queues: [rest.queue], room: [null] });
    expect(next.map(({ input }) => input)).toEqual([2]);
  });
});

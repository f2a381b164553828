/** A lane is on record while it is in use. It is taken out in three steps, and no task is ever left in one that nobody searches. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { PURGE_RULES, type PurgeRule, purge, purgeStatement } from "../../src/sql/purge.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer, releaseClaims } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { startOwnServer } from "../support/own-server.ts";

/**
 * A lane leaves when every transaction of the server that has a number has ended, those of other databases too. So this file has a server of
 * its own. Where the server is given, other files use it at the same time, and a lane may have to wait for them.
 */
const serverUrl = process.env["EVERBEAT_TEST_DATABASE_URL"] ?? (await startOwnServer({ whenDone: afterAll })).url;
const LEAVES_WITHIN_MS = 60_000;
vi.setConfig({ testTimeout: 2 * LEAVES_WITHIN_MS });

const { everbeat, database } = await openTestEverbeat({}, serverUrl);
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const claimer = handClaimer(everbeat.database, ["noop"]);

/** A step of each lane that there is, in a transaction of its own, whatever the last one cost and however few there are. */
async function step(by: { query: (text: string) => Promise<unknown> } = database): Promise<void> {
  await by.query("select everbeat.retire_lanes(0)");
  await by.query("update everbeat.upkeep set lanes_next_at = '-infinity'");
}
const lanes = (queue: string) =>
  database.query("select is_leaving from everbeat.lane where queue = $1 order by is_leaving", [queue]);
const untilGone = (queue: string) =>
  eventually(async () => step().then(() => lanes(queue)), {
    until: (rows) => rows.length === 0,
    within: LEAVES_WITHIN_MS,
    what: "the lane to be gone",
  });
const claimIn = async (queue: string) =>
  (await claimer.claim({ queues: [queue], room: [null] })).map(({ taskId }) => taskId);

/** What other tests have left would be in the way of each step. */
beforeEach(async () => {
  await database.query("delete from everbeat.lane");
  await database.query("update everbeat.upkeep set lanes_after = null, lanes_next_at = '-infinity'");
});

async function emptyLane(): Promise<string> {
  const queue = `q-${randomUUID()}`;
  await everbeat.enqueue(noop, 1, { queue });
  for (const task of await claimer.claim({ queues: [queue], room: [null] })) await claimer.complete(task);
  return queue;
}

async function begin(isolation = "read committed", url = database.url): Promise<pg.Client> {
  const client = new pg.Client(url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query(`begin isolation level ${isolation}`);
  return client;
}

describe("a lane without tasks", () => {
  test("leaves, and is there again with the next task", async () => {
    const queue = await emptyLane();
    await untilGone(queue);
    const id = await everbeat.enqueue(noop, 2, { queue });
    expect(await lanes(queue)).toEqual([{ is_leaving: false }]);
    expect(await claimIn(queue)).toEqual([id]);
  });

  test("stays as long as few are on record, and nothing is written", async () => {
    await emptyLane();
    const rows = () => database.query("select xmin::text, id from everbeat.lane order by id");
    const before = await rows();
    for (let n = 0; n < 3; n++) await database.query("select everbeat.retire_lanes(64)");
    expect(await rows()).toEqual(before);
  });

  test("stays until a transaction that writes in another database of the server has ended", async () => {
    const elsewhere = await begin("read committed", serverUrl);
    await elsewhere.query("select pg_current_xact_id()");
    const queue = await emptyLane();
    for (let n = 0; n < 4; n++) await step();
    expect(await lanes(queue)).toEqual([{ is_leaving: true }]);
    await elsewhere.query("rollback");
    await untilGone(queue);
  });

  test("stays while a task in it is due later", async () => {
    const queue = `q-${randomUUID()}`;
    await everbeat.enqueue(noop, 1, { queue, delay: "1h" });
    for (let n = 0; n < 4; n++) await step();
    expect(await lanes(queue)).toEqual([{ is_leaving: false }]);
  });
});

describe("a task that is put in", () => {
  test("by a transaction that is open through all steps keeps its lane", async () => {
    const queue = await emptyLane();
    const caller = await begin();
    const id = await everbeat.enqueue(noop, 2, { queue, tx: caller });
    for (let n = 0; n < 4; n++) await step();
    expect(await lanes(queue)).toEqual([{ is_leaving: true }]);
    await caller.query("commit");
    expect(await claimIn(queue)).toEqual([id]);
  });

  test("by a transaction that began after the one that marks the lane, and before that has ended, keeps its lane", async () => {
    const queue = await emptyLane();
    const marking = await begin();
    await step(marking);
    const caller = await begin();
    const id = await everbeat.enqueue(noop, 2, { queue, tx: caller });
    await marking.query("commit");
    // Nothing that began later has ended yet, so that the snapshot of the next step says little of the caller.
    await database.query("select everbeat.retire_lanes(0)");
    for (let n = 0; n < 4; n++) await step();
    expect(await lanes(queue)).toEqual([{ is_leaving: true }]);
    await caller.query("commit");
    // Now it is seen that the lane is not empty: it stays.
    await eventually(async () => step().then(() => lanes(queue)), {
      until: ([row]) => row?.is_leaving === false,
      within: LEAVES_WITHIN_MS,
      what: "the lane to stay",
    });
    expect(await claimIn(queue)).toEqual([id]);
  });

  test("into a lane that is leaving has another, which stays", async () => {
    const queue = await emptyLane();
    await step();
    const id = await everbeat.enqueue(noop, 2, { queue });
    expect(await lanes(queue)).toEqual([{ is_leaving: false }, { is_leaving: true }]);
    await step();
    expect(await lanes(queue)).toEqual([{ is_leaving: false }]);
    expect(await claimIn(queue)).toEqual([id]);
  });

  test("into a lane that is leaving, and gone before the commit, has another", async () => {
    const queue = await emptyLane();
    await step();
    const caller = await begin();
    const id = await everbeat.enqueue(noop, 2, { queue, tx: caller });
    // It counts as one that may have seen the lane, so that only the step that it cannot have come before is left to it.
    for (let n = 0; n < 3; n++) await step();
    await caller.query("commit");
    await step();
    expect(await claimIn(queue)).toEqual([id]);
  });

  test.each(["repeatable read", "serializable"])(
    "by a transaction (%s) that saw the lane before it was gone has one of its own",
    async (isolation) => {
      const queue = await emptyLane();
      const caller = await begin(isolation);
      await caller.query("select from everbeat.lane");
      await untilGone(queue);
      const id = await everbeat.enqueue(noop, 2, { queue, tx: caller });
      await caller.query("commit");
      expect(await claimIn(queue)).toEqual([id]);
    },
  );

  test("by two at once, of which one takes it back, is found; two rows for a lane become one", async () => {
    const queue = `q-${randomUUID()}`;
    const callers = [await begin(), await begin(), await begin()];
    const ids: string[] = [];
    for (const tx of callers) ids.push(await everbeat.enqueue(noop, 1, { queue, tx }));
    for (const [n, caller] of callers.entries()) await caller.query(n === 0 ? "rollback" : "commit");
    expect(await lanes(queue)).toHaveLength(2);
    await step();
    expect(await lanes(queue)).toEqual([{ is_leaving: false }]);
    expect(await claimIn(queue)).toEqual(ids.slice(1));
  });

  test("is found when the server was ended in the middle of a step", async () => {
    const queue = await emptyLane();
    for (let n = 0; n < 3; n++) {
      const marking = await begin();
      marking.on("error", () => {});
      await step(marking);
      await database.query("select pg_terminate_backend($1)", [
        (marking as unknown as { processID: number }).processID,
      ]);
      await step();
    }
    const id = await everbeat.enqueue(noop, 2, { queue });
    await step();
    expect(await claimIn(queue)).toEqual([id]);
  });
});

describe("a task that comes back into a lane that is gone", () => {
  async function claimed(options: object = {}) {
    const queue = `q-${randomUUID()}`;
    const id = await everbeat.enqueue(noop, 1, { queue, ...options });
    const [task] = await claimer.claim({ queues: [queue], room: [null] });
    if (!task) throw new Error("nothing was claimed");
    return { queue, id, task };
  }

  test("because it was given back, is found", async () => {
    const { queue, id, task } = await claimed();
    await database.query("update everbeat.running set state = 'claimed' where task_id = $1", [id]);
    await untilGone(queue);
    await releaseClaims(everbeat.database, [task]);
    expect(await claimIn(queue)).toEqual([id]);
  });

  test("for another attempt, is found", async () => {
    const { queue, id, task } = await claimed();
    await untilGone(queue);
    const { claimId, taskId } = task;
    const error = { code: "X", message: "x" };
    await claimer.end([
      { claim: claimId, task: taskId, replica: claimer.replicaId, to: "pending", outcome: "failed", error },
    ]);
    expect(await claimIn(queue)).toEqual([id]);
  });

  test("because somebody retries it, is found", async () => {
    const { queue, id, task } = await claimed();
    const { claimId, taskId } = task;
    const error = { code: "X", message: "x" };
    await claimer.end([
      { claim: claimId, task: taskId, replica: claimer.replicaId, to: "failed", outcome: "failed", error },
    ]);
    await untilGone(queue);
    await everbeat.tasks.retry(id);
    expect(await claimIn(queue)).toEqual([id]);
  });

  test("because its exclusive key is free, is found", async () => {
    const exclusiveKey = `k-${randomUUID()}`;
    const { queue, task } = await claimed({ exclusiveKey });
    const second = await everbeat.enqueue(noop, 2, { queue, exclusiveKey });
    expect(await claimIn(queue)).toEqual([]);
    await untilGone(queue);
    await claimer.complete(task);
    expect(await claimIn(queue)).toEqual([second]);
  });
});

describe("lanes of a priority", () => {
  test("take turns: a flooded queue does not starve the others, whoever claims", async () => {
    const name = `turns-${randomUUID()}`;
    const task = defineTask({ name, run: (_input: unknown) => null });
    const numbers = Array.from({ length: 50 }, (_, n) => n);
    for (const queue of ["a", "b", "c"])
      await everbeat.enqueueMany(task, numbers, { options: { queue: `${name}-${queue}` } });
    const turns = handClaimer(everbeat.database, [name]);
    let lastLaneId: string | undefined;
    const taken: string[] = [];
    for (let n = 0; n < 6; n++) {
      const { claimed, cursors } = await turns.look({ run: 5, lastLaneId });
      lastLaneId = cursors.at(-1)?.laneId;
      taken.push(...new Set(claimed.map(({ queue }) => queue)));
    }
    expect(taken).toHaveLength(6);
    expect(new Set(taken.slice(0, 3)).size).toBe(3);
    expect(taken.slice(3)).toEqual(taken.slice(0, 3));
  });
});

describe("what says nothing any more is forgotten", () => {
  const AGES = { historyAgeMs: 0, purgeAgeMs: 0, postMortemAgeMs: 0 };
  const ruleOf = (table: string) => PURGE_RULES.find(({ rows }) => rows("everbeat").table === table) as PurgeRule;
  const forget = (table: string) => everbeat.database.transaction((tx) => purge(tx, ruleOf(table), AGES, 1_000));

  test("queues without settings, after an hour; they are listed as long as they are in use", async () => {
    const [used, unused, set] = [`q-${randomUUID()}`, `q-${randomUUID()}`, `q-${randomUUID()}`];
    await everbeat.enqueue(noop, 1, { queue: used, delay: "1h" });
    for (const queue of [used, unused, set]) await everbeat.queues.pause(queue);
    for (const queue of [used, unused]) await everbeat.queues.resume(queue);
    await forget("queue");
    const listed = async () => (await everbeat.queues.list()).map(({ name }) => name);
    expect(await listed()).toEqual(expect.arrayContaining([used, unused, set]));
    await database.query("update everbeat.queue set changed_at = now() - interval '2 hours'");
    await forget("queue");
    expect(await listed()).toEqual(expect.arrayContaining([used, set]));
    expect(await listed()).not.toContain(unused);
    expect(
      await database.query("select name from everbeat.queue where name = any ($1)", [[used, unused, set]]),
    ).toEqual([{ name: set }]);
  });

  test("budgets that were earned back; one that is asked for at that moment is counted all the same", async () => {
    const key = `k-${randomUUID()}`;
    const take = (per: number) => `select everbeat.take_rate('${key}', 1, ${per}, 1) as taken`;
    await database.query(take(1));
    await eventually(
      async () => forget("rate").then(() => database.query("select from everbeat.rate where key = $1", [key])),
      {
        until: (rows) => rows.length === 0,
        what: "the budget to be forgotten",
      },
    );
    await database.query(take(1));
    await database.query("update everbeat.rate set spent_until = now(), deferred_until = now() where key = $1", [key]);
    const forgetting = await begin();
    await forgetting.query(purgeStatement("everbeat", ruleOf("rate")), [0, 1_000]);
    // That cannot be said for as long as it is not known whether the budget is forgotten. Nobody waits for it for longer than a moment.
    expect(await database.query(take(3_600_000))).toEqual([{ taken: null }]);
    await forgetting.query("commit");
    expect(await database.query(take(3_600_000))).toEqual([{ taken: 1 }]);
    expect(await database.query(take(3_600_000))).toEqual([{ taken: 0 }]);
  });
});

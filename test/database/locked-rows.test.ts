/** One row that an open transaction of somebody else has locked is passed by: it holds up neither sweeps nor upkeep, nor anybody else. */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { Events } from "../../src/events.ts";
import type { ClaimedTask } from "../../src/sql/claims.ts";
import { beginSweep, keepListening } from "../../src/sql/hearts.ts";
import { purgeIfDue, runUpkeep } from "../../src/sql/upkeep.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { timeMover } from "../model/move-time.ts";
import { handClaimer, putOnRecord } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { refuse } from "../support/refusing.ts";
import { anHourLater, type Sweeper, sweeper } from "../support/sweeping.ts";
import { createUpkeep } from "../support/upkeep.ts";
import { unique } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const store = everbeat.database;

beforeEach(() =>
  database.query(
    "truncate everbeat.alert, everbeat.running, everbeat.ready, everbeat.parked, everbeat.listening, everbeat.turn, everbeat.replica, everbeat.heart",
  ),
);

/** A worker that runs, or has only claimed, so many tasks. */
async function workerWith(options: readonly { exclusiveKey?: string }[], state: "running" | "claimed" = "running") {
  const task = defineTask({ name: unique("locked"), run: (_input: null) => null });
  await database.query('insert into everbeat.definition (name, settings) values ($1, \'{"onCrash":"retry"}\')', [
    task.name,
  ]);
  const worker = handClaimer(store, [task.name]);
  const claimed: ClaimedTask[] = [];
  for (const one of options) {
    await everbeat.enqueue(task, null, one);
    claimed.push(...(await worker.claim(state === "running" ? { run: 1 } : { run: 0, prefetch: 1 })));
  }
  expect(claimed).toHaveLength(options.length);
  return { replicaId: worker.replicaId, claimed, task };
}

async function openTransaction() {
  const client = new pg.Client(database.url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("begin");
  return client;
}

/** As a handler does that has asked for its check at once, and then stands still. */
async function checkAtOnce({ claimId, taskId }: ClaimedTask, outcome: object | null = null) {
  const client = await openTransaction();
  await client.query("select everbeat.guard_claim($1, $2, $3)", [claimId, taskId, outcome && JSON.stringify(outcome)]);
  await client.query("set constraints all immediate");
  return client;
}

const die = (replica: ReplicaId) =>
  database.query("update everbeat.replica set status = 'dead', died_at = now(), death = '{}' where id = $1", [replica]);
const statesOf = async (tasks: readonly ClaimedTask[]) =>
  (await Promise.all(tasks.map(({ taskId }) => everbeat.tasks.show(taskId)))).map(({ state }) => state);
const passedBy = ({ told }: Sweeper) => told.filter(({ event }) => event === "sweep.passed-by");

describe("a sweep", () => {
  test("recovers the other tasks of a dead replica, and the locked one when its lock is gone", async () => {
    const { replicaId, claimed } = await workerWith([{}, {}, {}]);
    await anHourLater(store);
    const handler = await checkAtOnce(claimed[1] as ClaimedTask);
    await die(replicaId);
    const sweeping = sweeper(store);
    await sweeping.sweep();
    expect(await statesOf(claimed)).toEqual(["pending", "running", "pending"]);
    await sweeping.sweep();
    expect(sweeping.errors).toHaveLength(1);
    expect(String(sweeping.errors[0])).toContain(claimed[1]?.taskId);
    expect(passedBy(sweeping)).toEqual([]);
    await handler.query("rollback");
    await anHourLater(store);
    await sweeper(store).sweep();
    expect(await statesOf(claimed)).toEqual(["pending", "pending", "pending"]);
  });

  test("gives back the other tasks that a dead replica had only claimed", async () => {
    const { replicaId, claimed } = await workerWith([{}, {}, {}], "claimed");
    await anHourLater(store);
    const holder = await openTransaction();
    await holder.query("select from everbeat.running where claim_id = $1 for update", [claimed[0]?.claimId]);
    await die(replicaId);
    await sweeper(store).sweep();
    expect(await statesOf(claimed)).toEqual(["claimed", "pending", "pending"]);
  });

  test("recovers what has an exclusive key whose lock somebody keeps", async () => {
    const key = unique("key");
    const { replicaId, claimed } = await workerWith([{}, { exclusiveKey: key }, {}]);
    const holder = await openTransaction();
    await holder.query("select pg_advisory_xact_lock(everbeat.gate_lock_id('exclusive', $1))", [key]);
    await die(replicaId);
    await anHourLater(store);
    await sweeper(store).sweep();
    expect(await statesOf(claimed)).toEqual(["pending", "pending", "pending"]);
    await holder.query("rollback");
  });

  test("declares another dead meanwhile, and leaves no statement behind that waits", async () => {
    const { replicaId, claimed } = await workerWith([{}]);
    const [silent, well] = [newReplicaId(), newReplicaId()];
    for (const id of [silent, well]) await putOnRecord(store, id, []);
    await anHourLater(store);
    await checkAtOnce(claimed[0] as ClaimedTask);
    await die(replicaId);
    const sweeping = sweeper(store);
    await sweeping.sweep();
    await database.query(
      "update everbeat.heart set beat_at = now() - interval '1 hour', promise_ms = 1000, session_promise_ms = 1000 where replica_id = $1",
      [silent],
    );
    await database.query("update everbeat.replica set started_at = now() - interval '1 hour' where id = $1", [silent]);
    await sweeping.sweep();
    expect(await database.query("select status from everbeat.replica where id = $1", [silent])).toEqual([
      { status: "dead" },
    ]);
    const waiting =
      "select query from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    expect(await database.query(waiting)).toEqual([]);
  });

  test("raises an alert where that lasts, once, and ends it when the task is recovered", async () => {
    const { replicaId, claimed } = await workerWith([{}]);
    await anHourLater(store);
    const handler = await checkAtOnce(claimed[0] as ClaimedTask);
    await die(replicaId);
    const sweeping = sweeper(store);
    // It is left alone for a moment each time: the moments are skipped.
    const now = vi.spyOn(performance, "now");
    onTestFinished(() => now.mockRestore());
    const sweepLater = async (ms: number) => {
      now.mockReturnValue(ms);
      await sweeping.sweep();
    };
    for (let times = 1; times <= 6; times++) await sweepLater(10_000 * times);
    expect(passedBy(sweeping)).toHaveLength(1);
    expect(await everbeat.alerts.list({ open: true })).toHaveLength(1);
    await handler.query("rollback");
    await sweepLater(100_000);
    expect(await everbeat.alerts.list({ open: true })).toEqual([]);
  });
});

test("a task that was locked at first and is refused then is told of as well, once", async () => {
  const { replicaId, claimed } = await workerWith([{}]);
  await anHourLater(store);
  const handler = await checkAtOnce(claimed[0] as ClaimedTask);
  await die(replicaId);
  const sweeping = sweeper(store);
  await sweeping.sweep();
  await refuse(database, "ready", `new.task_id = '${claimed[0]?.taskId}'`);
  await handler.query("rollback");
  const now = vi.spyOn(performance, "now");
  onTestFinished(() => now.mockRestore());
  for (let times = 1; times <= 3; times++) {
    now.mockReturnValue(100_000 * times);
    await sweeping.sweep();
  }
  expect(passedBy(sweeping)).toMatchObject([{ error: { code: "P0001" } }]);
  expect(await everbeat.alerts.list({ open: true })).toHaveLength(1);
});

test("an alert about a stall that is over, and that somebody has locked, holds up no sweep", async () => {
  const raise = (subject: string) =>
    database.query("insert into everbeat.alert (kind, subject, message) values ('task-stalled', $1, 'quiet')", [
      subject,
    ]);
  for (const subject of ["locked", "free"]) await raise(subject);
  const holder = await openTransaction();
  await holder.query("select from everbeat.alert where subject = 'locked' for update");
  await anHourLater(store);
  const sweeping = sweeper(store);
  await sweeping.sweep();
  expect((await everbeat.alerts.list({ open: true })).map(({ subject }) => subject)).toEqual(["locked"]);
  expect(sweeping.errors).toEqual([]);
});

describe("a sweep that takes longer than the gap in which nobody listens", async () => {
  const pass = await timeMover(store);
  const sweep = { id: newReplicaId(), gapMs: 10_000, isReplica: true };

  async function silenceAfter(during: () => Promise<void>): Promise<number> {
    await putOnRecord(store, sweep.id, []);
    await beginSweep(store, sweep);
    await during();
    await database.query("update everbeat.heart set beat_at = now()");
    await beginSweep(store, sweep);
    const [row] = await database.query<{ ms: number }>(
      "select extract(epoch from swept_at - hearing_since)::float8 * 1000 as ms from everbeat.listening",
    );
    return row?.ms ?? 0;
  }
  const isHeard = () => database.query("update everbeat.heart set beat_at = now()");
  const say = () => keepListening(store, { gapMs: sweep.gapMs, isReplica: true });

  test("is no such gap, as long as its process says in time that it is there", async () => {
    const heardMs = await silenceAfter(async () => {
      for (let times = 0; times < 5; times++) {
        await pass(6_000);
        await isHeard();
        await say();
      }
    });
    expect(heardMs).toBeGreaterThanOrEqual(30_000);
  });

  test("is one where its process was paused for so long", async () => {
    const heardMs = await silenceAfter(async () => {
      await pass(11_000);
      await isHeard();
      await say();
    });
    expect(heardMs).toBeLessThan(10_000);
  });

  test("is one where no heart at all was heard", async () => {
    const heardMs = await silenceAfter(async () => {
      for (let times = 0; times < 5; times++) {
        await pass(6_000);
        await say();
      }
    });
    expect(heardMs).toBeLessThan(10_000);
  });
});

describe("upkeep", () => {
  const retention = { maxAgeMs: 86_400_000, maxCount: undefined };

  /** A task that ended long ago, one that runs with a key, and one that is parked behind it. */
  async function withAnOldTask() {
    const key = unique("key");
    const name = unique("old");
    const id = randomUUID();
    const owner = handClaimer(store, [name]);
    const enqueue = (options: object) =>
      database.query("select everbeat.enqueue($1, '{}', $2)", [name, JSON.stringify(options)]);
    await enqueue({ id });
    const [old] = await owner.claim();
    await owner.complete(old as ClaimedTask);
    await database.query("update everbeat.ended set ended_at = now() - interval '10 days' where task_id = $1", [id]);
    await database.query("update everbeat.upkeep set purged_at = '-infinity'");
    await enqueue({ exclusiveKey: key });
    await enqueue({ exclusiveKey: key });
    const [running] = await owner.claim({ run: 1 });
    expect(await owner.claim()).toEqual([]);
    const user = await openTransaction();
    await user.query("select everbeat.enqueue($1, '{}', $2)", [name, JSON.stringify({ id })]);
    return { id, owner, running: running as ClaimedTask, user };
  }

  test("leaves an old task whose id somebody enqueues again, and keeps no exclusive key meanwhile", async () => {
    const { id, owner, running, user } = await withAnOldTask();
    expect(await purgeIfDue(store, retention, 100)).toBe(0);
    await owner.complete(running);
    await user.query("rollback");
    await database.query("update everbeat.upkeep set purged_at = '-infinity'");
    expect(await purgeIfDue(store, retention, 100)).toBe(1);
    expect(await database.query("select from everbeat.task where id = $1", [id])).toEqual([]);
  });

  test("is in no circle with a transaction that completes a task with such a key", async () => {
    const { running, user } = await withAnOldTask();
    const { claimId, taskId } = running;
    const outcome = { claim: claimId, task: taskId, to: "completed", outcome: "completed", result: "null" };
    await user.query("select everbeat.guard_claim($1, $2, $3)", [claimId, taskId, JSON.stringify(outcome)]);
    const upkeep = runUpkeep(store, 100).then(() => purgeIfDue(store, retention, 100));
    await Promise.all([upkeep, user.query("commit")]);
    expect(await statesOf([running])).toEqual(["completed"]);
  });

  test("enforces the other cancellations where a task is locked, and those whose key is kept", async () => {
    const key = unique("key");
    const { claimed } = await workerWith([{}, {}, { exclusiveKey: key }, {}]);
    await database.query("select everbeat.cancel_tasks($1, 0, null)", [claimed.map(({ taskId }) => taskId)]);
    await database.query("update everbeat.running set cancel_force_at = now() - interval '1 minute'");
    await checkAtOnce(claimed[1] as ClaimedTask);
    const holder = await openTransaction();
    await holder.query("select pg_advisory_xact_lock(everbeat.gate_lock_id('exclusive', $1))", [key]);
    const errors: unknown[] = [];
    const onError = (error: unknown) => void errors.push(error);
    const upkeep = createUpkeep({ database: store, events: new Events(onError), onError });
    await upkeep.runOnce();
    expect(await statesOf(claimed)).toEqual(["cancelled", "running", "cancelled", "cancelled"]);
  });
});

test.each([
  ["replica", "id"],
  ["heart", "replica_id"],
])(
  "an exit is reported where the row of its worker in %s is locked: it is left to the verdict on its silence",
  async (table, column) => {
    const [one, other] = [await workerWith([{}]), await workerWith([{}])];
    for (const { replicaId } of [one, other])
      await database.query(
        `insert into everbeat.heart (replica_id, interval_ms, promise_ms, session_promise_ms, session_key, epoch, beat_at)
       values ($1, 1, 1, 1, 1, 'e', now()) on conflict do nothing`,
        [replicaId],
      );
    const holder = await openTransaction();
    await holder.query(`select from everbeat.${table} where ${column} = $1 for update`, [one.replicaId]);
    const report = ({ replicaId }: typeof one) => everbeat.recovery.reportExit(replicaId, { signal: "SIGKILL" });
    expect(await report(one)).toEqual({ verdict: "locked", recovered: [] });
    expect(await report(other)).toMatchObject({ verdict: "dead", recovered: [{ action: "retried" }] });
    await holder.query("rollback");
    expect(await report(one)).toMatchObject({ verdict: "dead" });
  },
);

test("a statement that was given up ends on the server, since that looks for its client", async () => {
  const { claimed } = await workerWith([{}]);
  const holder = await openTransaction();
  await holder.query("select from everbeat.running where claim_id = $1 for update", [claimed[0]?.claimId]);
  const waiting = () =>
    database.query("select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'");
  const given = store.withReplyWithin(1_000).query("update everbeat.running set attempt = 2", []);
  await Promise.all([
    expect(given).rejects.toMatchObject({ code: "NO_REPLY" }),
    eventually(waiting, { until: (rows) => rows.length === 1, what: "the statement to wait" }),
  ]);
  await eventually(waiting, { until: (rows) => rows.length === 0, what: "the statement to end", within: 20_000 });
  await holder.query("commit");
  expect(await database.query("select attempt from everbeat.running")).toEqual([{ attempt: 1 }]);
});

/** A session lock that is free says nothing about a heart where sessions do not count: neither that it dies nor that its tasks are stale. */
import pg from "pg";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { beat, beginSweep, readDoubtfulHearts } from "../../src/sql/hearts.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { handClaimer, putOnRecord } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { anHourLater, sweeper } from "../support/sweeping.ts";
import { unique } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const store = everbeat.database;

beforeEach(() =>
  database.query(
    "truncate everbeat.alert, everbeat.running, everbeat.listening, everbeat.turn, everbeat.replica, everbeat.heart",
  ),
);

/** Replicas on a machine each, heard now, whose sessions have ended. */
async function withoutSessions(count: number): Promise<ReplicaId[]> {
  const replicas = Array.from({ length: count }, () => newReplicaId());
  for (const id of replicas) await putOnRecord(store, id, []);
  await database.query("update everbeat.replica set machine_id = id, started_at = now() - interval '1 hour'");
  await anHourLater(store);
  await database.query("update everbeat.heart set session_epoch = everbeat.current_epoch(), beat_at = now()");
  return replicas;
}

const isFreeFor = (interval: string) =>
  database.query("update everbeat.heart set session_free_since = now() - $1::interval", [interval]);

test.each([
  ["off", false, ["replica.dead"]],
  ["on", true, ["recovery.held"]],
])(
  "where session evidence is %s, other machines whose sessions have ended at once count as dying: %s",
  async (_, sessionEvidence, expected) => {
    const [silent] = await withoutSessions(4);
    await database.query(
      "update everbeat.heart set beat_at = now() - interval '30 minutes', promise_ms = 100, session_promise_ms = 100000, session_epoch = null where replica_id = $1",
      [silent],
    );
    const reaper = sweeper(store, { sessionEvidence, massDeath: { share: 0.5, atLeast: 2 } });
    await reaper.sweep();
    const told = reaper.told.filter(({ event }) => event === "replica.dead" || event === "recovery.held");
    expect(told.map(({ event }) => event)).toEqual(expected);
  },
);

describe("a session that was seen free before the server was started again", () => {
  test("makes no task stale by hand, and is no longer shown", async () => {
    const task = defineTask({ name: unique("stale"), run: (_input: null) => null });
    const id = await everbeat.enqueue(task, null);
    const owner = handClaimer(store, [task.name]);
    await owner.claim({ run: 1 });
    await anHourLater(store);
    await database.query(
      "update everbeat.heart set session_epoch = everbeat.current_epoch(), beat_at = now(), session_promise_ms = 100",
    );
    await isFreeFor("20 minutes");
    expect(await everbeat.recovery.findStale()).toHaveLength(1);
    // Which is all that a crash leaves of an unlogged table.
    await database.query("delete from everbeat.epoch_marker");
    expect(await everbeat.recovery.findStale()).toEqual([]);
    expect(await everbeat.recovery.failStaleRunning()).toEqual({ count: 0, ids: [] });
    expect(await everbeat.replicas()).toMatchObject([{ sessionFreeForMs: null }]);
    expect((await everbeat.recovery.explain(id)).because).not.toBe("session-lost");
  });
});

test("a heart that beats without a session since, and whose row was locked when the sweep began, is in no doubt", async () => {
  const [replica = newReplicaId()] = await withoutSessions(1);
  await isFreeFor("1 minute");
  await beat(store, replica, { vitals: {}, hasSession: false, isRemembered: false });
  const holder = new pg.Client(database.url);
  await holder.connect();
  onTestFinished(() => holder.end());
  await holder.query("begin");
  await holder.query("select from everbeat.heart for update");
  await beginSweep(store, { id: newReplicaId(), isReplica: true, gapMs: 3_600_000 });
  expect(await readDoubtfulHearts(store, { silentFromMs: 60_000, doSessionsCount: true })).toEqual([]);
});

/** Ended tasks that a user's own foreign key or trigger keeps from being deleted stay, are told of once, and keep no others from leaving. */
import pg from "pg";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { Events } from "../../src/events.ts";
import { PassedBy } from "../../src/recovery/passed-by.ts";
import { resolveEndedAlerts } from "../../src/sql/alerts.ts";
import type { Retention } from "../../src/sql/upkeep.ts";
import { purgeRecord } from "../../src/upkeep/purge-record.ts";
import { passedByRetention, removeEnded, retentionService } from "../../src/upkeep/retention.ts";
import { openTestEverbeat } from "../support/database.ts";
import { refuseToDelete } from "../support/refusing.ts";

const { everbeat, database } = await openTestEverbeat();
const AGE: Retention = { maxAgeMs: 86_400_000, maxCount: undefined };
const DAY_MS = 86_400_000;
const fail = (error: unknown) => {
  throw error;
};

/** Thirty tasks that ended long ago, each a second after the one before it. The number of a task is its unique key, and each has all that a task can have. */
beforeEach(async () => {
  await database.query(
    `truncate everbeat.task, everbeat.ended, everbeat.unique_hold, everbeat.not_purged, everbeat.alert, everbeat.attempt, everbeat.progress,
       everbeat.late, everbeat.review, everbeat.suspicion`,
  );
  await database.query(
    `with t as (
       insert into everbeat.task (id, name, queue, priority, run_at, input, unique_key)
       select gen_random_uuid(), 'old', 'old', 0, now(), '{}', n from generate_series(1, 30) n returning id, unique_key
     ), h as (
       insert into everbeat.unique_hold (name, key, task_id) select 'old', unique_key, id from t
     ), a as (
       insert into everbeat.attempt (claim_id, task_id, replica_id, attempt, claimed_at, ended_at, outcome)
       select nextval('everbeat.claim_id'), id, id, 1, now(), now(), 'failed' from t
     ), p as (
       insert into everbeat.progress (claim_id, task_id) select nextval('everbeat.claim_id'), id from t
     ), l as (
       insert into everbeat.late (claim_id, task_id, replica_id, outcome, arrived_at) select 1, id, id, 'failed', now() from t
     ), r as (
       insert into everbeat.review (task_id) select id from t
     ), s as (
       insert into everbeat.suspicion (task_id, replica_id, is_charged, is_apart) select id, id, true, true from t
     )
     insert into everbeat.ended (task_id, state, attempt, failures, crashes, ended_at)
     select id, 'completed', 1, 0, 0, now() - interval '10 days' + make_interval(secs => unique_key::int) from t`,
  );
});

/** The removal of ended tasks by one replica, and what it told. */
function replica(retention = AGE) {
  const told: string[] = [];
  const events = new Events(fail);
  events.on("upkeep.passed-by", ({ what }) => told.push(what));
  const heldUp: unknown[] = [];
  const onError = (error: unknown) => void heldUp.push(error);
  const parts = { database: everbeat.database, events, retention, onError };
  const service = retentionService(parts);
  const makeDue = () => database.query("update everbeat.upkeep set purged_at = '-infinity'");
  return {
    ...{ told, heldUp },
    async remove() {
      await makeDue();
      await service.runOnce();
    },
    async inBatchesOf(batch: number, rounds: number) {
      const passedBy = passedByRetention(parts);
      for (let round = 0; round < rounds; round++) {
        await makeDue();
        await removeEnded({ database: everbeat.database, retention, passedBy, batch });
      }
    },
  };
}
const restIsOver = () => database.query("update everbeat.not_purged set rests_until = now() - interval '1 second'");

async function left(): Promise<number[]> {
  const rows = await database.query<{ n: number }>(
    "select unique_key::int as n from everbeat.task join everbeat.ended on task_id = id order by 1",
  );
  return rows.map(({ n }) => n);
}
async function idOf(n: number): Promise<string> {
  const [row] = await database.query<{ id: string }>("select id from everbeat.task where unique_key = $1::int::text", [
    n,
  ]);
  return row?.id ?? "";
}
const openAlerts = async () =>
  (await everbeat.alerts.list({ open: true })).map(({ kind, subject }) => ({ kind, subject }));
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

/** A table of a user's own with these tasks in it. */
async function reference(tasks: readonly number[], terms = "") {
  await database.query(`create table public.invoice (task uuid references everbeat.task ${terms})`);
  onTestFinished(async () => {
    await database.query("drop table public.invoice");
  });
  await database.query(
    "insert into public.invoice select id from everbeat.task where unique_key::int = any ($1::int[])",
    [tasks],
  );
}

describe.each(["", "deferrable initially deferred"])("a task that a foreign key (%s) refers to", (terms) => {
  test("stays, is told of once by all replicas, and leaves when nothing refers to it any more", async () => {
    await reference([2, 17], terms);
    const ids = [await idOf(2), await idOf(17)];
    const [one, other] = [replica(), replica()];
    await one.remove();
    expect(await left()).toEqual([2, 17]);
    expect(one.told.toSorted()).toEqual(ids.map((id) => `removing the ended task ${id}`).toSorted());
    const told = one.told.map((subject) => ({ kind: "upkeep-passed-by", subject }));
    for (const again of [one, other, other, one]) {
      await again.remove();
      expect(await openAlerts()).toEqual(expect.arrayContaining(told));
      await restIsOver();
    }
    expect([one.told.length, other.told.length, (await openAlerts()).length]).toEqual([2, 0, 2]);
    await database.query("delete from public.invoice");
    await other.remove();
    expect(await left()).toEqual([]);
    expect(await openAlerts()).toEqual([]);
    expect(await database.query("select from everbeat.not_purged")).toEqual([]);
    expect([one.heldUp, other.heldUp]).toEqual([[], []]);
  });
});

test("while it rests, a purge is one statement; and it rests for longer each time, up to an hour", async () => {
  await reference([1]);
  const { remove } = replica();
  const minutes: number[] = [];
  for (let times = 0; times < 9; times++) {
    await remove();
    const [row] = await database.query<{ minutes: number }>(
      "select round(extract(epoch from rests_until - now()) / 60)::int as minutes from everbeat.not_purged",
    );
    minutes.push(row?.minutes ?? 0);
    const [{ purged } = { purged: -1 }] = await database.query<{ purged: number }>(
      "select everbeat.purge_ended(86400000, null, 500) as purged",
    );
    expect(purged).toBe(0);
    await restIsOver();
  }
  expect(minutes).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60]);
});

const TABLES = ["task", "ended", "attempt", "progress", "late", "review", "suspicion", "unique_hold"] as const;

test.each(TABLES)("one whose row in %s a trigger refuses to delete keeps no others", async (table) => {
  const id = await idOf(12);
  const { allow } = await refuseToDelete(database, table, `old.${table === "task" ? "id" : "task_id"} = '${id}'`);
  const { remove, told } = replica();
  await remove();
  expect(await left()).toEqual([12]);
  expect(told).toEqual([`removing the ended task ${id}`]);
  await allow();
  await restIsOver();
  await remove();
  expect(await left()).toEqual([]);
});

test.each(["task", "ended"])("nor does one whose row in %s a trigger keeps without an error", async (table) => {
  const id = await idOf(12);
  await refuseToDelete(database, table, `old.${table === "task" ? "id" : "task_id"} = '${id}'`, { isSilent: true });
  const { remove, told } = replica();
  await remove();
  expect(await left()).toEqual([12]);
  expect(told).toEqual([`removing the ended task ${id}`]);
});

test("more of them than a batch keep no others", async () => {
  await reference(upTo(25));
  const { inBatchesOf, told } = replica();
  await inBatchesOf(10, 3);
  expect(await left()).toEqual(upTo(25));
  // Twenty, and that there are others.
  expect(told).toHaveLength(21);
});

test("of too many, the oldest leave that can", async () => {
  await reference(upTo(12));
  const { inBatchesOf } = replica({ maxAgeMs: undefined, maxCount: 14 });
  await inBatchesOf(10, 4);
  expect(await left()).toEqual([...upTo(12), 29, 30]);
});

test("one of which somebody has locked an attempt rests as well, with an alert only if that lasts", async () => {
  const client = new pg.Client(database.url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("begin");
  await client.query("select from everbeat.attempt where task_id = $1 for update", [await idOf(12)]);
  const { remove, told, heldUp } = replica();
  for (let times = 1; times <= 4; times++) {
    expect(await openAlerts()).toEqual([]);
    await remove();
    expect(await left()).toEqual([12]);
    await restIsOver();
  }
  expect([heldUp.length, told.length, (await openAlerts()).length]).toEqual([1, 1, 1]);
  await client.query("rollback");
  await remove();
  expect(await left()).toEqual([]);
  expect(await openAlerts()).toEqual([]);
});

test("its alert ends when it is retried", async () => {
  await reference([3]);
  const { remove } = replica();
  await remove();
  expect(await openAlerts()).toHaveLength(1);
  await database.query("update everbeat.ended set state = 'failed'");
  await everbeat.tasks.retry(await idOf(3));
  const ages = { historyAgeMs: DAY_MS, purgeAgeMs: DAY_MS, postMortemAgeMs: DAY_MS };
  const parts = { database: everbeat.database, events: new Events(fail), onError: fail };
  await purgeRecord(everbeat.database, ages, new PassedBy({ service: "sweep", part: "purges" }, parts));
  expect(await openAlerts()).toEqual([]);
});

test("it keeps no others where no alert of it can be raised, and no note of it be made", async () => {
  await reference([3]);
  for (const table of ["alert", "not_purged"]) {
    await database.query(`alter table everbeat.${table} add constraint none check (false) not valid`);
    onTestFinished(async () => {
      await database.query(`alter table everbeat.${table} drop constraint none`);
    });
  }
  const { remove, told, heldUp } = replica();
  await remove();
  expect(await left()).toEqual([3]);
  expect(told).toHaveLength(1);
  expect(heldUp).toMatchObject([{ code: "23514" }, { code: "23514" }]);
});

test("where very many are kept, twenty have an alert of their own and one stands for the rest, until none is left", async () => {
  const { allow } = await refuseToDelete(database, "task", "true");
  const { remove } = replica();
  const open = async () => (await everbeat.alerts.list({ open: true })).map(({ subject }) => subject);
  for (let round = 0; round < 2; round++) {
    await remove();
    await restIsOver();
  }
  expect(await database.query("select from everbeat.not_purged")).toHaveLength(30);
  expect(await open()).toHaveLength(21);
  expect(await open()).toContain("and others");
  await resolveEndedAlerts(everbeat.database);
  expect(await open()).toHaveLength(21);
  await allow();
  await remove();
  await resolveEndedAlerts(everbeat.database);
  expect(await open()).toEqual([]);
});

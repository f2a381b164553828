/** Ended tasks that somebody has locked stay on record until the next purge, and keep no others from leaving. */
import pg from "pg";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { purgeIfDue } from "../../src/sql/upkeep.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const BATCH = 10;
const AGE = { maxAgeMs: 86_400_000, maxCount: undefined };

/** Thirty tasks that ended long ago, each a second after the one before it. The number of a task is its unique key. */
beforeEach(async () => {
  await database.query(
    "truncate everbeat.task, everbeat.ended, everbeat.unique_hold; update everbeat.upkeep set purged_at = '-infinity'",
  );
  await database.query(
    `with t as (
       insert into everbeat.task (id, name, queue, priority, run_at, input, unique_key)
       select gen_random_uuid(), 'old', 'old', 0, now(), '{}', n from generate_series(1, 30) n returning id, unique_key
     ), h as (
       insert into everbeat.unique_hold (name, key, task_id) select 'old', unique_key, id from t
     )
     insert into everbeat.ended (task_id, state, attempt, failures, crashes, ended_at)
     select id, 'completed', 1, 0, 0, now() - interval '10 days' + make_interval(secs => unique_key::int) from t`,
  );
});

type Lock = [table: string, column: string];
const BY_TASK: Lock = ["task", "id"];
const LOCKS: Lock[] = [["ended", "task_id"], BY_TASK, ["unique_hold", "task_id"]];

/** The oldest so many, locked in one of three ways by a transaction that stays open. */
async function lockOldest(count: number, [table, column]: Lock) {
  const client = new pg.Client(database.url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("begin");
  const { rowCount } = await client.query(
    `select from everbeat.${table} where ${column} in (select id from everbeat.task where unique_key::int <= $1) for update`,
    [count],
  );
  expect(rowCount).toBe(count);
  return client;
}

/** How many leave with each purge, until one finds nothing. Nothing makes a purge due before its time. */
async function purges(retention: Parameters<typeof purgeIfDue>[1]): Promise<number[]> {
  const counts: number[] = [];
  do counts.push(await purgeIfDue(everbeat.database, retention, BATCH));
  while (counts.at(-1));
  return counts;
}
async function left(): Promise<number[]> {
  const rows = await database.query<{ n: number }>(
    "select unique_key::int as n from everbeat.task join everbeat.ended on task_id = id order by 1",
  );
  return rows.map(({ n }) => n);
}
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

test.each(LOCKS)("one whose row in %s is locked keeps no others", async (...lock) => {
  const holder = await lockOldest(1, lock);
  expect(await purges(AGE)).toEqual([10, 10, 9, 0]);
  expect(await left()).toEqual([1]);
  await holder.query("rollback");
  await database.query("update everbeat.upkeep set purged_at = '-infinity'");
  expect(await purges(AGE)).toEqual([1, 0]);
});

test.each(LOCKS)("nor do more than a batch of them, by their rows in %s", async (...lock) => {
  await lockOldest(15, lock);
  expect(await purges(AGE)).toEqual([10, 5, 0]);
  expect(await left()).toEqual(upTo(15));
});

test.each(LOCKS)("of too many, the oldest leave that are not locked in %s", async (...lock) => {
  await lockOldest(12, lock);
  expect(await purges({ maxAgeMs: undefined, maxCount: 14 })).toEqual([10, 6, 0]);
  expect(await left()).toEqual([...upTo(12), 29, 30]);
});

test("a unique key that was asked for longer stays with a task that is locked, and goes on without one that left", async () => {
  await database.query("update everbeat.unique_hold set counts_until = now() + interval '1 day'");
  await lockOldest(12, BY_TASK);
  await purges(AGE);
  const holds = await database.query<{ key: number; ended_as: string | null }>(
    "select key::int, ended_as from everbeat.unique_hold order by key::int",
  );
  expect(holds.map(({ ended_as }) => ended_as)).toEqual([...Array(12).fill(null), ...Array(18).fill("completed")]);
});

test("one without a record of what was asked leaves, with its unique key", async () => {
  await database.query("delete from everbeat.task where unique_key::int <= 2");
  expect(await purges(AGE)).toEqual([10, 10, 10, 0]);
  expect(await database.query("select from everbeat.ended union all select from everbeat.unique_hold")).toEqual([]);
});

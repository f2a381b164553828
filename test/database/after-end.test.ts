/** What hangs on the ends of tasks can count on them: here are joins, which nothing else of the schema knows of. */
import pg from "pg";
import { beforeEach, expect, test } from "vitest";
import { createClaimHandle } from "../../src/runner/claim-handle.ts";
import type { ClaimedTask } from "../../src/sql/claims.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { emptyTables } from "../model/tables.ts";
import { completed, handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { JOINS } from "../support/joins.ts";

const { everbeat, database } = await openTestEverbeat();
await database.query(JOINS);
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const claimer = handClaimer(everbeat.database, ["noop"]);

beforeEach(async () => {
  await emptyTables(everbeat.database);
  await database.query("truncate join_point, join_edge, join_due");
});

/** Running tasks, and joins that wait for them: task n is of join n modulo `joins`. */
async function joined(tasks: number, joins: number): Promise<ClaimedTask[]> {
  await everbeat.enqueueMany(
    noop,
    Array.from({ length: tasks }, (_, n) => n),
  );
  const claimed = await claimer.claim({ run: tasks });
  await database.query("insert into join_point (id) select generate_series(0, $1 - 1)", [joins]);
  await database.query(
    "insert into join_edge (task, join_point) select t, (n - 1) % $2 from unnest($1::uuid[]) with ordinality u (t, n)",
    [claimed.map(({ taskId }) => taskId), joins],
  );
  return claimed;
}

/** How many tasks followed each join. */
const followed = async () =>
  (
    await database.query<{ times: number }>(
      `select (select count(*)::int from everbeat.task t where t.name = 'follow' and t.input::text = p.id::text) as times
     from join_point p order by p.id`,
    )
  ).map(({ times }) => times);

const cancel = (tasks: readonly ClaimedTask[]) =>
  database.query("select everbeat.force_cancels($1, $2, $3)", [
    ...[tasks.map(({ claimId }) => claimId), tasks.map(({ taskId }) => taskId), [claimer.replicaId]],
  ]);

const ends: Record<string, (task: ClaimedTask) => Promise<unknown>> = {
  "by their worker": (task) => claimer.complete(task),
  "by upkeep": (task) => cancel([task]),
  "in transactions of their own": (task) => inTransaction(task, "read committed"),
  "in transactions that keep an old snapshot": (task) => inTransaction(task, "repeatable read"),
};

/** Again where it could not be serialized, as a handler is run again. */
async function inTransaction(task: ClaimedTask, isolation: string): Promise<void> {
  const client = new pg.Client(database.url);
  await client.connect();
  try {
    for (;;) {
      try {
        await client.query(`begin isolation level ${isolation}`);
        const more = { name: "noop", replicaId: claimer.replicaId, schema: "everbeat", resultLimitBytes: 1_000 };
        await createClaimHandle({ ...task, ...more }).completeIn(client, 1);
        await client.query("commit");
        return;
      } catch (error) {
        await client.query("rollback");
        if ((error as { code?: string }).code !== "40001") throw error;
      }
    }
  } finally {
    await client.end();
  }
}

for (const [how, end] of Object.entries(ends)) {
  test(`a join is followed once, when both of its tasks end at the same time ${how}`, async () => {
    const tasks = await joined(60, 30);
    for (let n = 0; n < 30; n++) await Promise.all([tasks[n], tasks[n + 30]].map((task) => end(task as ClaimedTask)));
    expect(await followed()).toEqual(Array(30).fill(1));
  }, 60_000);
}

test("batches whose tasks are of the same joins in opposite order do not wait for each other in a circle", async () => {
  for (let round = 0; round < 10; round++) {
    await database.query("truncate join_point, join_edge, join_due");
    await database.query("delete from everbeat.task where name = 'follow'");
    const tasks = await joined(200, 50);
    const batch = (n: number) => tasks.slice(n * 50, n * 50 + 50);
    const outcomes = (n: number) => batch(n).map((task) => completed(task, claimer.replicaId));
    await Promise.all([
      claimer.end(outcomes(0)),
      claimer.end(outcomes(1).toReversed()),
      cancel(batch(2)),
      cancel(batch(3).toReversed()),
    ]);
    expect(await followed()).toEqual(Array(50).fill(1));
  }
}, 60_000);

test("tasks that wait, are claimed and are parked end in one statement, and each of their joins is advanced once", async () => {
  const options = { exclusiveKey: "k" };
  const ids = [await everbeat.enqueue(noop, 1, options), await everbeat.enqueue(noop, 2, options)];
  await claimer.claim({ run: 0, prefetch: 1 });
  ids.push(await everbeat.enqueue(noop, 3), await everbeat.enqueue(noop, 4, { delay: "1h" }));
  await database.query("insert into join_point (id) values (0), (1)");
  // One for all of them but the last, and one for that.
  await database.query("insert into join_edge (task, join_point) select t, (t = $2)::int from unnest($1::uuid[]) t", [
    ...[ids, ids.at(-1)],
  ]);
  await everbeat.tasks.cancel(ids);
  expect(await database.query("select revision from join_point")).toEqual([{ revision: 1 }, { revision: 1 }]);
  expect(await followed()).toEqual([1, 1]);
});

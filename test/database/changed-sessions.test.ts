/** Sessions that somebody changes after Everbeat has looked at them, and frames that do not end as they should. */
import type pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { readOutlook } from "../../src/sql/claims.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { createCallersPool } from "../support/callers-pool.ts";
import { handClaimer } from "../support/claims.ts";
import { holding } from "../support/crash-database.ts";
import { createMigratedDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const add = defineTask({ name: "add", run: async (n: number) => n + 1 });

/** A caller's pool of one connection, which Everbeat has looked at. */
async function openOnPool(options: pg.PoolConfig = {}) {
  const database = await createMigratedDatabase();
  onTestFinished(() => database.drop());
  const pool = createCallersPool({ connectionString: database.url, max: 1, ...options });
  const everbeat = await Everbeat.open({ database: pool, log: "silent" });
  onTestFinished(() => everbeat.close({ now: true }));
  return { database, pool, everbeat };
}

describe("a caller that changes the level of its pooled session", () => {
  const CHANGE = "set session characteristics as transaction isolation level repeatable read";

  test("does not get two running under one exclusive key", async () => {
    const { database, pool, everbeat } = await openOnPool();
    const other = await Everbeat.open({ database: database.url, log: "silent" });
    onTestFinished(() => other.close({ now: true }));
    const [first, second] = [handClaimer(other.database, ["add"]), handClaimer(everbeat.database, ["add"])];
    for (const queue of ["one", "two"]) await other.enqueue(add, 1, { queue, exclusiveKey: "k" });
    await second.claim({ queues: ["none"], room: [null] });
    await pool.query(CHANGE);
    // It has to wait for the bells, so that the other has claimed and committed before it looks at the key.
    await database.query("alter function everbeat.arm_bells set lock_timeout = '1min'");
    const bells = await holding(database.url, "select everbeat.ring('{none}')");
    const looking = second.claim({ queues: ["two"], room: [null], arms: true });
    await eventually(() => database.query("select from pg_stat_activity where wait_event = 'advisory'"), {
      until: (rows) => rows.length === 1,
    });
    expect(await first.claim({ queues: ["one"], room: [null] })).toHaveLength(1);
    await bells.release();
    expect(await looking).toEqual([]);
    const level = await pool.query("select current_setting('transaction_isolation') as level");
    expect(level.rows).toEqual([{ level: "repeatable read" }]);
  });

  test("has a worker that goes on", async () => {
    const { pool, everbeat } = await openOnPool();
    const outages: unknown[] = [];
    everbeat.on("database.lost", (event) => outages.push(event));
    await everbeat.work([add], { handleSignals: false });
    expect(await everbeat.result(await everbeat.enqueue(add, 1))).toBe(2);
    await pool.query(CHANGE);
    expect(await everbeat.result(await everbeat.enqueue(add, 2, { exclusiveKey: "k" }), { timeout: 5_000 })).toBe(3);
    expect(outages).toEqual([]);
  });

  test.each([
    ["a claim", "select everbeat.claim_tasks(gen_random_uuid(), '{}', null, null, 1, 0, '{}', '{}', '{}')"],
    ["upkeep", "select everbeat.run_upkeep(1)"],
    ["letting parked tasks go", "select everbeat.unpark_every_kind(1)"],
    ["retiring lanes", "select everbeat.retire_lanes()"],
  ])("is refused %s that is asked without Everbeat", async (_what, text) => {
    const { pool } = await openOnPool();
    await pool.query(CHANGE);
    await expect(pool.query(text)).rejects.toMatchObject({
      code: "EB008",
      message: expect.stringContaining("repeatable read"),
    });
  });
});

test("where a search ended is told in a form that every session reads alike, whatever its datestyle", async () => {
  const { pool, everbeat } = await openOnPool();
  const claimer = handClaimer(everbeat.database, ["add"]);
  await everbeat.enqueueMany(add, [1, 2, 3]);
  await pool.query("set datestyle = 'SQL, DMY'");
  const { claimed, cursors } = await claimer.look({ run: 1 });
  const { seenUpTo } = await claimer.look({ cursors, run: 0, prefetch: 1, names: ["other"] });
  const outlook = await readOutlook(everbeat.database, ["add"], undefined, "infinity");
  const times = [...cursors.map(({ runAt }) => runAt), seenUpTo, ...outlook.overlooked.map(({ runAt }) => runAt)];
  expect(times).toEqual(Array.from({ length: 3 }, () => expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+[+-][\d:]+$/)));
  await pool.query("set datestyle = 'German'");
  const others = await claimer.claim({ cursors, seenUpTo });
  expect([...claimed, ...others].map(({ input }) => input).sort()).toEqual([1, 2, 3]);
}, 20_000);

test("a caller that lowers the time limit of its pooled session fails one statement, and no second one", async () => {
  const { pool, everbeat } = await openOnPool();
  await everbeat.database.query("select 1");
  await pool.query("set statement_timeout = 50");
  await expect(everbeat.database.query("select pg_sleep(0.2)")).rejects.toMatchObject({ code: "57014" });
  await everbeat.database.query("select pg_sleep(0.2)");
});

test("a caller that changes how times are written on its pooled session fails one statement, and never gets a wrong time", async () => {
  const { pool, everbeat } = await openOnPool();
  const id = await everbeat.enqueue(add, 1, { runAt: "2030-05-12T10:11:12.345Z" });
  await pool.query("set datestyle = 'SQL, DMY'");
  await expect(everbeat.tasks.show(id)).rejects.toMatchObject({
    code: "TIME_NOT_READABLE",
    message: expect.stringContaining("DateStyle"),
  });
  expect((await everbeat.tasks.show(id)).runAt.toISOString()).toBe("2030-05-12T10:11:12.345Z");
});

test("a statement that was cancelled fails for that also where its session cannot be looked at again, and nobody gets that session", async () => {
  const { database, pool, everbeat } = await openOnPool();
  await everbeat.database.query("select 1");
  await database.query(`create schema theirs;
    create function theirs.pg_is_in_recovery() returns boolean language plpgsql as $$ begin raise 'no look'; end $$`);
  await pool.query("set statement_timeout = 50; set search_path = theirs, pg_catalog");
  await expect(everbeat.database.query("select pg_sleep(0.2)")).rejects.toMatchObject({ code: "57014" });
  await everbeat.database.query("select pg_sleep(0.2)");
});

describe("a frame", () => {
  const options = "-c default_transaction_isolation=serializable";

  test("is ended by the server five seconds after its process was stopped in it", async () => {
    const { everbeat } = await openOnPool({ options });
    const [row] = await everbeat.database.query<{ ms: string }>(
      "select current_setting('idle_in_transaction_session_timeout') as ms",
    );
    expect(row).toEqual({ ms: "5s" });
  });

  test("that cannot be rolled back leaves no connection in a transaction to the caller", async () => {
    const { pool, everbeat } = await openOnPool({ options });
    await everbeat.database.query("select 1");
    const client = await pool.connect();
    const pid = (client as unknown as { processID: number }).processID;
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    // Its rollback is lost on the way.
    client.query = ((statement: { text?: string }, ...rest: unknown[]) =>
      statement.text === "rollback" ? undefined : query(statement, ...rest)) as typeof client.query;
    client.release();
    const failing = everbeat.database.withReplyWithin(200).query("select 1 / 0", []);
    await expect(failing).rejects.toMatchObject({ code: "22012" });
    const { rows } = await pool.query("select pg_backend_pid() as pid");
    expect(rows).not.toEqual([{ pid }]);
    await eventually(
      async () => (await pool.query("select from pg_stat_activity where pid = $1", [pid])).rowCount === 0,
    );
  });
});

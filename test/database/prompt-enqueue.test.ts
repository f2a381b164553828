/** An enqueue that wakes a worker is two transactions: after the first, workers are told; after the second, the caller is. */
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { type CrashDatabase, holding, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { task } from "../support/worker-process.ts";

const note = task("note");
const SLOW = { within: 30_000 };
const waiting = (text: string) =>
  `pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%${text}%'`;
const PROMPT = waiting("insert\\_task\\_promptly(");
const AGAIN = waiting("insert\\_tasks(");

/** A call that has told a worker and cannot go on, and what was told. */
async function startHalfDone(database: CrashDatabase) {
  const listener = await connect(database.url);
  const heard: string[] = [];
  listener.on("notification", ({ payload }) => heard.push(payload ?? ""));
  await listener.query("listen everbeat");
  await database.query("select everbeat.arm_bells('{*}')");
  // The first transaction waits for the bells when all is written; and whoever wants the table waits behind it.
  const bells = await holding(database.url, "lock table everbeat.bell in exclusive mode");
  let isAnswered = false;
  const call = database.everbeat.enqueue(note, {});
  const answered = () => {
    isAnswered = true;
  };
  call.then(answered, answered);
  await eventually(() => database.count(PROMPT), { ...SLOW, what: "the first transaction to wait" });
  const taking = holding(database.url, "lock table everbeat.task in exclusive mode");
  await eventually(() => database.count(waiting("lock table")), { ...SLOW, what: "the table to be waited for" });
  await bells.release();
  const table = await taking;
  await eventually(() => database.count(PROMPT), { ...SLOW, what: "the second transaction to wait" });
  return { call, isAnswered: () => isAnswered, heard, table };
}

test("after the first, its task can be seen and workers are told; the caller is not answered before the second", async () => {
  const database = await openCrashDatabase();
  const { call, isAnswered, heard, table } = await startHalfDone(database);
  await eventually(() => heard.length > 0, { ...SLOW, what: "the notice" });
  expect(heard).toEqual(["ready *"]);
  expect(await database.count("everbeat.ready")).toBe(1);
  expect(isAnswered()).toBe(false);
  await table.release();
  expect(await database.query("select id from everbeat.task")).toEqual([{ id: await call }]);
});

test.each(["pg_cancel_backend", "pg_terminate_backend"])(
  "after %s between the two the call is made again, and answered: there is one task",
  async (how) => {
    const database = await openCrashDatabase();
    const { call, isAnswered, table } = await startHalfDone(database);
    await database.query(`select ${how}(pid) from ${PROMPT}`);
    await eventually(() => database.count(AGAIN), { ...SLOW, what: "the repeat" });
    expect(isAnswered()).toBe(false);
    await table.release();
    expect(await database.query("select id from everbeat.task")).toEqual([{ id: await call }]);
    await database.expectSound();
  },
);

test.each([
  ["small", { n: 1 }],
  ["long", { text: "x".repeat(300) }],
])("a task with a %s input that is put in by itself is what it would be among others", async (_, input) => {
  const database = await openCrashDatabase();
  const options = { queue: "other", priority: 7 };
  await database.everbeat.enqueue(note, input, options);
  await database.everbeat.enqueueMany(note, [input], { options });
  const rows = await database.query<{ row: object }>(
    `select jsonb_build_object('task', to_jsonb(t) - '{id,run_at,created_at}'::text[], 'ready', to_jsonb(r) - '{task_id,run_at}'::text[],
                               'is due', t.run_at = t.created_at and r.run_at = t.run_at) as row
     from everbeat.task t join everbeat.ready r on r.task_id = t.id`,
  );
  expect(rows).toHaveLength(2);
  expect(rows[0]).toEqual(rows[1]);
});

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  client.on("error", () => {});
  await client.connect();
  onTestFinished(() => client.end().catch(() => {}));
  return client;
}

/** A call that enqueues many tasks while its connection breaks: all of them are there in the end, once, or none is. */
import { describe, expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { type CrashDatabase, holding, openCrashDatabase, openThrough } from "../support/crash-database.ts";
import { startCuttingProxy } from "../support/cutting-proxy.ts";
import { eventually } from "../support/eventually.ts";

const note = defineTask({ name: "note", run: async (_input: { n: number }) => {} });
const inputs = (count: number) => Array.from({ length: count }, (_, n) => ({ n }));

/** One statement, and a transaction of several. */
const SIZES = [1_000, 12_000];

/** Whoever looks for its lanes waits for this one, when all of its rows are written. */
const THE_LANES = "lock table everbeat.lane in exclusive mode";
const WAITING =
  "pg_stat_activity where datname = current_database() and query like '%insert_tasks(%' and wait_event_type = 'Lock'";

async function expectAllOnce(database: CrashDatabase, ids: readonly string[]): Promise<void> {
  const rows = await database.query<{ id: string; n: number }>(
    "select t.id, (t.input ->> 'n')::int as n from everbeat.task t join everbeat.ready r on r.task_id = t.id order by n",
  );
  expect(rows).toEqual(ids.map((id, n) => ({ id, n })));
  expect(await database.count("everbeat.task")).toBe(ids.length);
  await database.expectSound();
}

describe.each(SIZES)("%i tasks", (size) => {
  test.each(["insert_tasks(", ...(size > 10_000 ? ["commit"] : [])])(
    "when the reply to %s is lost",
    async (statement) => {
      const database = await openCrashDatabase();
      const proxy = await startCuttingProxy(database.url);
      const through = await openThrough(proxy.url);
      const cut = proxy.cutReplyTo(statement);
      const ids = await through.enqueueMany(note, inputs(size));
      await cut;
      await expectAllOnce(database, ids);
    },
  );

  test("when its backend is ended in the middle, again and again", async () => {
    const database = await openCrashDatabase();
    const lock = await holding(database.url, THE_LANES);
    const call = database.everbeat.enqueueMany(note, inputs(size));
    for (let round = 0; round < 2; round++) {
      await eventually(() => database.count(WAITING), { until: (n) => n === 1, what: "it to wait", within: 20_000 });
      await database.query(`select pg_terminate_backend(pid) from ${WAITING}`);
      await eventually(() => database.count(WAITING), { until: (n) => n === 0, what: "it to be gone", within: 20_000 });
      expect(await database.count("everbeat.task")).toBe(0);
    }
    await lock.release();
    await expectAllOnce(database, await call);
  });

  test("when its statement is cancelled: the caller is told, and nothing is there", async () => {
    const database = await openCrashDatabase();
    const lock = await holding(database.url, THE_LANES);
    const call = database.everbeat.enqueueMany(note, inputs(size));
    const refused = expect(call).rejects.toMatchObject({ code: "57014" });
    await eventually(() => database.count(WAITING), { until: (n) => n === 1, what: "it to wait", within: 20_000 });
    await database.query(`select pg_cancel_backend(pid) from ${WAITING}`);
    await refused;
    await lock.release();
    expect(await database.count("everbeat.task")).toBe(0);
    await expectAllOnce(database, await database.everbeat.enqueueMany(note, inputs(size)));
  });
});

test.each([
  ["when all is written", THE_LANES],
  ["when it has just begun, as the other has", "lock table everbeat.ready in share mode"],
])("the server is still at it while the call is repeated, %s: one waits, and finds them there", async (_, held) => {
  const database = await openCrashDatabase();
  const proxy = await startCuttingProxy(database.url);
  const through = await openThrough(proxy.url);
  const lock = await holding(database.url, held);
  const cut = proxy.cutWhileServed("insert_tasks(");
  const call = through.enqueueMany(note, inputs(1_000));
  await cut;
  await eventually(() => database.count(WAITING), { until: (n) => n === 2, what: "both to wait", within: 20_000 });
  await lock.release();
  await expectAllOnce(database, await call);
});

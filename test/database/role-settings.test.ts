import { describe, expect, onTestFinished, test } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { enqueueByName } from "../../src/sql/enqueue-by-name.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { createCallersPool } from "../support/callers-pool.ts";
import { createTestDatabase } from "../support/database.ts";
import { createRole } from "../support/roles.ts";

const add = defineTask({ name: "add", run: async (n: number) => n + 1 });

const GIVEN = ["an address", "a pool of the caller's"] as const;
const SETTINGS: readonly (readonly [setting: string, value: string])[] = [
  ["default_transaction_read_only", "on"],
  ["datestyle", "'SQL, DMY'"],
  ["datestyle", "'Postgres, MDY'"],
  ["datestyle", "German"],
  ["extra_float_digits", "'-15'"],
  ["intervalstyle", "sql_standard"],
  ["timezone", "'Asia/Kolkata'"],
  ["timezone", "'Europe/Berlin'"],
];

/** Opened by a role for which this is set. */
async function openWith(given: (typeof GIVEN)[number], setting: string, value: string) {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const { url } = await createRole(database, { [setting]: value });
  const pool = createCallersPool({ connectionString: url, max: 4 });
  const everbeat = await Everbeat.open({ database: given === "an address" ? url : pool, log: "silent" });
  onTestFinished(() => everbeat.close({ now: true }));
  return { database, everbeat, pool };
}

const asText = (at: Date) => (Number.isNaN(at.getTime()) ? "no time" : at.toISOString());

async function runSome(everbeat: Everbeat): Promise<void> {
  const worker = await everbeat.work([add], { handleSignals: false, concurrency: 2 });
  expect(await everbeat.result(await everbeat.enqueue(add, 1))).toBe(2);
  expect(await everbeat.result(await everbeat.enqueue(add, 2, { uniqueKey: "two", exclusiveKey: "x" }))).toBe(3);
  const many = await everbeat.enqueueMany(add, [1, 2, 3, 4, 5, 6], { options: { queue: "many", priority: 3 } });
  for (const [index, id] of many.entries()) expect(await everbeat.result(id)).toBe(index + 2);
  expect(await everbeat.result(await everbeat.enqueue(add, 7, { delay: 50 }))).toBe(8);
  const byName = await enqueueByName(everbeat.database, {
    ...{ name: "add", inputJson: "8", optionsJson: JSON.stringify({ delay: "1ms", runAt: undefined }) },
  });
  expect(await everbeat.result(byName as never)).toBe(9);
  await everbeat.tasks.cancel([await everbeat.enqueue(add, 1, { delay: "1h" })]);
  const within = await everbeat.database.transaction((tx) => everbeat.enqueue(add, 9, { tx: tx as never }));
  expect(await everbeat.result(within)).toBe(10);
  await worker.stop();
}

describe.each(GIVEN)("with %s", (given) => {
  test.each(SETTINGS)(
    "and a role for which %s is %s, tasks are put in, found, shown and run as always",
    async (...set) => {
      const { everbeat } = await openWith(given, ...set);
      const troubles: unknown[] = [];
      for (const event of ["database.lost", "database.refused", "sweep.passed-by", "upkeep.passed-by"] as const)
        everbeat.on(event, ({ error }) => troubles.push(error));
      for (const at of ["2030-05-12T10:11:12.345Z", "1000-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"]) {
        const id = await everbeat.enqueue(add, 1, { runAt: at, queue: "times" });
        expect.soft(asText((await everbeat.tasks.show(id)).runAt)).toBe(at);
      }
      const { tasks } = await everbeat.tasks.list({ createdAfter: new Date(Date.now() - 60_000) });
      expect(tasks).toHaveLength(3);
      for (const { createdAt } of tasks) expect.soft(Math.abs(createdAt.getTime() - Date.now())).toBeLessThan(60_000);
      expect.soft(await everbeat.database.query("select 1234567.875::float8 as n")).toEqual([{ n: 1234567.875 }]);
      await runSome(everbeat);
      expect(troubles).toEqual([]);
    },
  );

  test("nothing of the session is changed that the caller sees in a pool of its own", async () => {
    const { everbeat, pool } = await openWith(given, "datestyle", "'SQL, DMY'");
    await everbeat.enqueue(add, 1);
    const { rows } = await pool.query("show datestyle");
    expect(rows).toEqual([{ DateStyle: "SQL, DMY" }]);
    // And the order of days and months stays the caller's, also where Everbeat begins the transaction.
    const [row] = await everbeat.database.transaction((tx) =>
      tx.query<{ at: Date }>("select '12/05/2030 00:00 UTC'::timestamptz as at"),
    );
    expect(row?.at.toISOString()).toBe("2030-05-12T00:00:00.000Z");
  });
});

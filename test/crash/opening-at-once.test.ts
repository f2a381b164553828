/** Many processes that find an empty database at the same moment. */
import { expect, onTestFinished, test } from "vitest";
import { readMigrations } from "../../src/database/migrations.ts";
import { createTestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { startWorker } from "../support/worker-process.ts";

test("ten processes that open a fresh database at once all find one schema", { timeout: 120_000 }, async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const work = { concurrency: 1 };
  await Promise.all(
    Array.from({ length: 10 }, () => startWorker({ url: database.url, work, tasks: [{ handler: "quick" }] })),
  );
  const applied = await database.query<{ name: string }>("select name from everbeat.migration order by version");
  expect(applied.map((row) => row.name)).toEqual(readMigrations().map((migration) => migration.name));
  const schemas = await database.query("select nspname from pg_namespace where nspname like 'everbeat%'");
  expect(schemas).toEqual([{ nspname: "everbeat" }]);
  await eventually(() => database.query("select from everbeat.replica where status = 'online'"), {
    until: ({ length }) => length === 10,
  });
});

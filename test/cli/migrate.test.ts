import { afterAll, expect, test } from "vitest";
import { readMigrations } from "../../src/database/migrations.ts";
import { readRoutines } from "../../src/database/routines.ts";
import { createTestDatabase } from "../support/database.ts";
import { everbeat as cli, everbeatJson } from "./run-cli.ts";
import { everbeatHere as here, everbeatJsonHere as jsonHere } from "./run-here.ts";

const database = await createTestDatabase();
const at = { database: database.url };
const routines = readRoutines().length;
const names = readMigrations().map((migration) => migration.name);
afterAll(() => database.drop());

test("a look at a database without a schema changes nothing, and says what to do", async () => {
  const { code, stderr } = await cli(["status"], at);
  expect(code).toBe(1);
  expect(stderr).toContain("(--schema and --database), or run `everbeat migrate` with the same ones to create it");
  const [row] = await database.query<{ schemas: number }>(
    "select count(*)::int as schemas from pg_namespace where nspname = 'everbeat'",
  );
  expect(row?.schemas).toBe(0);
});

test("migrate --dry-run says what would be done, and does nothing", async () => {
  const { code, stdout } = await here(["migrate", "--dry-run"], at);
  expect(code).toBe(0);
  for (const name of names) expect(stdout).toContain(`– ${name}\n`);
  expect(stdout).toContain(`– ${routines} functions, views and triggers\n`);
  expect(stdout).toContain('The schema "everbeat" is at version 0. Nothing was done.');
  expect((await here(["status"], at)).code).toBe(1);
});

test("migrate names what it applies, and is content to find nothing to do", async () => {
  const { code, stdout } = await cli(["migrate"], at);
  expect(code).toBe(0);
  for (const name of names) expect(stdout).toContain(`✓ ${name}`);
  expect(stdout).toContain(`✓ ${routines} functions, views and triggers`);
  expect(stdout).toContain(`The schema "everbeat" is up to date, at version ${names.length}.`);
  expect((await here(["migrate"], at)).stdout).toContain("was up to date already");
  expect((await here(["migrate", "--dry-run"], at)).stdout).toContain(
    'The schema "everbeat" is up to date, at version',
  );
});

test("migrate answers with JSON, in a schema of choice", async () => {
  const { code, answer } = await everbeatJson(["migrate", "--schema", "jobs"], at);
  expect({ code, answer }).toEqual({
    code: 0,
    answer: { schema: "jobs", applied: names, replaced: routines, version: names.length },
  });
  expect((await here(["status", "--schema", "jobs"], at)).code).toBe(0);
});

test("migrate --dry-run fails where to migrate would not help, and says why", async () => {
  await here(["migrate", "--schema", "newer"], at);
  await database.query("insert into newer.migration values (9999, '9999_future', 'x', 9999)");
  const { code, answer } = await jsonHere<{ problem: { code: string } }>(
    ["migrate", "--dry-run", "--schema", "newer"],
    at,
  );
  expect(code).toBe(1);
  expect(answer).toMatchObject({ version: 9_999, needsMigration: false, problem: { code: "SCHEMA_TOO_NEW" } });
  expect((await here(["migrate", "--dry-run", "--schema", "newer"], at)).stdout).toContain("9999");
});

test("migrate --print needs no database, and what it prints is the schema", async () => {
  const { code, stdout } = await cli(["migrate", "--print", "--schema", "printed"], {
    database: "postgres://127.0.0.1:1/x",
  });
  expect(code).toBe(0);
  await database.query(stdout);
  expect((await here(["status", "--schema", "printed"], at)).code).toBe(0);
  const { answer } = await jsonHere<{ sql: string }>(["migrate", "--print"]);
  expect(answer).toMatchObject({
    schema: "everbeat",
    migrations: names,
    sql: expect.stringContaining("create schema"),
  });
});

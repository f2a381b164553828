import { readFileSync } from "node:fs";
import pg from "pg";
import { afterAll, describe, expect, test } from "vitest";
import { ownConnections } from "../../src/database/connections.ts";
import { createDatabase } from "../../src/database/database.ts";
import { assertSchemaFits, migrate, migrationScript } from "../../src/database/migrate.ts";
import { type Migration, readMigrations } from "../../src/database/migrations.ts";
import { parseTargets } from "../../src/database/targets.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { createTestDatabase } from "../support/database.ts";
import { describeSchema } from "../support/describe-schema.ts";

const database = await createTestDatabase();
afterAll(() => database.drop());
const open = (schema: string) => createDatabase(ownConnections(parseTargets(database.url), { max: 2 }), schema);
const extra = (version: number, compatibleFrom: number): Migration => ({
  version,
  name: `${version}_extra`,
  sql: `create table extra_${version} (id int)`,
  checksum: `sum-${version}`,
  compatibleFrom,
});

describe("migrations", () => {
  test("make everything in a schema whose name can be chosen, and nothing outside it", async () => {
    const before = await describeSchema(database.query, "public");
    const everbeat = await Everbeat.open({ database: database.url, schema: "other_name", log: "silent" });
    const task = defineTask({ name: "t", run: (n: number) => n + 1 });
    const worker = await everbeat.work([task], { handleSignals: false });
    expect(await everbeat.result(await everbeat.enqueue(task, 1, { exclusiveKey: "k", uniqueKey: "u" }))).toBe(2);
    await worker.stop();
    await everbeat.close();
    expect(await describeSchema(database.query, "public")).toEqual(before);
  });

  test("run once, however many start at once", async () => {
    const databases = Array.from({ length: 10 }, () => open("crowded"));
    const reports = await Promise.all(databases.map((one) => migrate(one)));
    expect(reports.flatMap((report) => report.applied).sort()).toEqual(
      readMigrations().map((migration) => migration.name),
    );
    await Promise.all(databases.map((one) => one.close()));
  });

  test("leave a schema that is the one on record", async () => {
    const one = open("everbeat");
    await migrate(one);
    await one.close();
    await expect(`${(await describeSchema(database.query, "everbeat")).join("\n")}\n`).toMatchFileSnapshot(
      "../../migrations/schema.txt",
    );
  });

  test("give no unlogged table a sequence: promoted before its first restart point, a standby could not read it any more", async () => {
    await migrate(open("unlogged"));
    const unlogged = (kind: string) =>
      database.query(
        `select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where n.nspname = 'unlogged' and c.relpersistence = 'u' and c.relkind = $1`,
        [kind],
      );
    expect((await unlogged("r")).length).toBeGreaterThan(0);
    expect(await unlogged("S")).toEqual([]);
  });

  test("printed as a script and run by hand, make the same", async () => {
    const client = new pg.Client(database.url);
    await client.connect();
    await client.query(migrationScript("by_hand"));
    await client.end();
    const strip = (lines: string[], schema: string) => lines.map((line) => line.replaceAll(schema, "SCHEMA"));
    expect(strip(await describeSchema(database.query, "by_hand"), "by_hand")).toEqual(
      strip(readFileSync("migrations/schema.txt", "utf8").trimEnd().split("\n"), "everbeat"),
    );
    const one = open("by_hand");
    expect((await migrate(one)).applied).toEqual([]);
    await one.close();
  });

  test("that fail leave nothing of themselves behind", async () => {
    const one = open("halfway");
    const broken = { ...extra(900, 1), sql: "create table half (id int); select no_such_function()" };
    await expect(migrate(one, { migrations: [...readMigrations(), broken] })).rejects.toThrow(/no_such_function/);
    expect(await one.query("select to_regclass('halfway.half') as half")).toEqual([{ half: null }]);
    await one.close();
  });
});

describe("a schema", () => {
  test("that is not there is refused where migrating is switched off: somebody may have named the wrong one", async () => {
    const { host } = new URL(database.url);
    const refusal = await Everbeat.open({
      ...{ database: database.url, schema: "not_there", migrate: false, log: "silent" },
    }).catch((error) => error);
    expect(refusal).toMatchObject({ code: "SCHEMA_MISSING", schema: "not_there" });
    // All of it: nothing of the address but its host, above all no password.
    expect(refusal.message).toBe(
      `There is no Everbeat schema "not_there" in the database "${database.name}" on ${host}. ` +
        "Check the schema and the address of the database (--schema and --database), or run `everbeat migrate` to create it.",
    );
  });

  test("that is older than the code is refused where migrating is switched off, with what to do", async () => {
    const one = open("older");
    await migrate(one, { migrations: readMigrations().slice(0, 3) });
    await expect(assertSchemaFits(one)).rejects.toMatchObject({
      code: "SCHEMA_TOO_OLD",
      message: expect.stringContaining("everbeat migrate"),
    });
    await one.close();
  });

  test("that is newer is refused where the code cannot work with it, and used where it can", async () => {
    const one = open("newer");
    await migrate(one, { migrations: [...readMigrations(), extra(900, 1)] });
    await assertSchemaFits(one);
    await migrate(one, { migrations: [...readMigrations(), extra(900, 1), extra(901, 901)] });
    await expect(assertSchemaFits(one)).rejects.toMatchObject({ code: "SCHEMA_TOO_NEW", found: 901 });
    await expect(Everbeat.open({ database: database.url, schema: "newer", log: "silent" })).rejects.toMatchObject({
      code: "SCHEMA_TOO_NEW",
    });
    await one.close();
  });

  test("that was migrated with another text is refused", async () => {
    const one = open("changed");
    await migrate(one, { migrations: [extra(1, 1)] });
    await expect(migrate(one)).rejects.toMatchObject({ code: "MIGRATION_CHANGED" });
    await one.close();
  });
});

import { readFileSync } from "node:fs";
import pg from "pg";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { ownConnections } from "../../src/database/connections.ts";
import { createDatabase } from "../../src/database/database.ts";
import { assertSchemaFits, migrate, migrationScript, ourSchema } from "../../src/database/migrate.ts";
import { type Migration, readMigrations } from "../../src/database/migrations.ts";
import { readRoutines, routinesOf } from "../../src/database/routines.ts";
import { parseTargets } from "../../src/database/targets.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { createTestDatabase } from "../support/database.ts";
import { describeSchema } from "../support/describe-schema.ts";
import { eventually } from "../support/eventually.ts";

/** In this test's database. */
const WAITING_MIGRATORS = `select from pg_locks l join pg_database d on d.oid = l.database
  where d.datname = current_database() and l.locktype = 'advisory' and not l.granted`;

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
    expect(await migrate(one)).toMatchObject({ applied: [], replaced: 0 });
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

/** Functions of a schema without tables, in several versions of the code. */
describe("functions, views and triggers", () => {
  const says = (word: string) =>
    `create or replace function word() returns text language sql as $$ select '${word}' $$;`;
  const code = (release: string, files: Record<string, string>) => ({
    ...{ release, migrations: [extra(1, 1)], routines: routinesOf(files) },
  });
  const scene = (schema: string) => {
    const one = open(schema);
    onTestFinished(() => one.close());
    const word = async () => (await one.query(`select ${schema}.word() as word`))[0]?.["word"];
    return { one, word };
  };

  test("are made once, and again where their text has changed, and only those", async () => {
    const { one, word } = scene("texts");
    const other = { "b.sql": "create or replace function b() returns int language sql as $$ select 1 $$;" };
    const steps: string[] = [];
    const take = (files: Record<string, string>) =>
      migrate(one, {
        ...code("1.0.0", files),
        onProgress: ({ step, done, of }) => void steps.push(`${done} of ${of}: ${step}`),
      });
    expect(await take({ "word.sql": says("old"), ...other })).toMatchObject({ applied: ["1_extra"], replaced: 2 });
    expect(await take({ "word.sql": says("old"), ...other })).toMatchObject({ applied: [], replaced: 0 });
    expect(await take({ "word.sql": says("new"), ...other })).toMatchObject({ applied: [], replaced: 1 });
    expect(await word()).toBe("new");
    expect(steps).toEqual([
      "0 of 2: 1_extra",
      "1 of 2: 2 functions, views and triggers",
      "0 of 1: 1 function, view or trigger",
    ]);
  });

  test("of a newer release stay where older code starts after it", async () => {
    const { one, word } = scene("releases");
    for (const release of ["1.0.0", "1.2.0", "1.1.0", "1.2.0-rc.1"]) {
      await migrate(one, code(release, { "word.sql": says(release) }));
      await assertSchemaFits(one, code(release, { "word.sql": says(release) }));
    }
    expect(await word()).toBe("1.2.0");
  });

  test("that a release has as they were before count as its own: the release between does not come back", async () => {
    const { one, word } = scene("reverted");
    await migrate(one, code("1.0.0", { "word.sql": says("good") }));
    expect(await migrate(one, code("1.2.0", { "word.sql": says("good") }))).toMatchObject({ replaced: 0 });
    await migrate(one, code("1.1.0", { "word.sql": says("bad") }));
    expect(await word()).toBe("good");
  });

  test("that no file has any more stay: older code may call them", async () => {
    const { one, word } = scene("removed");
    await migrate(one, code("1.0.0", { "word.sql": says("still here") }));
    await migrate(one, code("1.1.0", {}));
    expect(await word()).toBe("still here");
  });

  test("of which one cannot be made all stay as they were", async () => {
    const { one, word } = scene("together");
    await migrate(one, code("1.0.0", { "word.sql": says("old") }));
    const broken = {
      "word.sql": says("new"),
      "wrong.sql": "create or replace function wrong() returns nothing_at_all language sql as ''",
    };
    await expect(migrate(one, code("1.1.0", broken))).rejects.toThrow(/nothing_at_all/);
    expect(await word()).toBe("old");
    expect(await migrate(one, code("1.1.0", { "word.sql": says("new") }))).toMatchObject({ replaced: 1 });
    expect(await word()).toBe("new");
  });

  test("that are older than the code are refused where migrating is switched off, with what to do", async () => {
    const { one } = scene("old_texts");
    await migrate(one, code("1.0.0", { "word.sql": says("old") }));
    const newer = code("1.1.0", { "word.sql": says("new"), "other.sql": says("other") });
    await expect(assertSchemaFits(one, newer)).rejects.toMatchObject({
      code: "ROUTINES_TOO_OLD",
      message: expect.stringMatching(/^2 functions, views and triggers .*Run `everbeat migrate`/),
    });
  });

  test("are replaced while ten processes start at once and work goes on", async () => {
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const everbeat = await Everbeat.open({ database: database.url, log: "silent" });
    onTestFinished(() => everbeat.close());
    const task = defineTask({ name: "t", run: (n: number) => n });
    const worker = await everbeat.work([task], { handleSignals: false });
    const inputs = Array.from({ length: 300 }, (_, n) => n);
    const ids = everbeat.enqueueMany(task, inputs);
    const newer = routinesOf(
      Object.fromEntries(readRoutines().map(({ name, sql }) => [`${name}.sql`, `-- newer\n${sql}`])),
    );
    const reports = await Promise.all(
      Array.from({ length: 10 }, () => migrate(everbeat.database, { release: "999.0.0", routines: newer })),
    );
    expect(reports.map(({ replaced }) => replaced).filter((count) => count > 0)).toEqual([newer.length]);
    expect(await Promise.all((await ids).map((id) => everbeat.result(id)))).toEqual(inputs);
    await worker.stop();
  });
});

test("what is built has the functions, views and triggers of the source", () => {
  const built = JSON.parse(readFileSync("dist/routines.json", "utf8"));
  expect(routinesOf(built)).toEqual(readRoutines());
  expect(readRoutines().length).toBeGreaterThan(100);
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
        "Check the schema and the address of the database (--schema and --database), or run `everbeat migrate` with the same ones to create it.",
    );
  });

  test("that is older than the code is refused where migrating is switched off, with what to do", async () => {
    const one = open("older");
    await migrate(one);
    const newer = { ...ourSchema(), migrations: [...readMigrations(), extra(900, 900)] };
    await expect(assertSchemaFits(one, newer)).rejects.toMatchObject({
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

  test("that a newer version makes its own while an older one waits for the lock is refused by the older one", async () => {
    const one = open("overtaken");
    const newer = new pg.Client(database.url);
    onTestFinished(() => newer.end());
    onTestFinished(() => one.close());
    await migrate(one, { migrations: [extra(1, 1)], routines: [] });
    await newer.connect();
    await newer.query(`begin; select pg_advisory_xact_lock(hashtextextended('everbeat/migrate/"overtaken"', 0))`);
    const older = migrate(one, { migrations: [extra(1, 1), extra(2, 1)], routines: [] }).catch((error) => error);
    await eventually(async () => (await database.query(WAITING_MIGRATORS)).length === 1);
    await newer.query(`set search_path to overtaken; ${extra(2, 1).sql}; ${extra(3, 3).sql};
      insert into migration (version, name, checksum, compatible_from) values (2, '2_extra', 'sum-2', 1), (3, '3_extra', 'sum-3', 3); commit`);
    expect(await older).toMatchObject({ code: "SCHEMA_TOO_NEW", found: 3, known: 2 });
  });

  test("that was migrated with another text is refused", async () => {
    const one = open("changed");
    await migrate(one, { migrations: [extra(1, 1)], routines: [] });
    await expect(migrate(one)).rejects.toMatchObject({ code: "MIGRATION_CHANGED" });
    await one.close();
  });
});

import { expect, inject, onTestFinished, test } from "vitest";
import { ownConnections } from "../../src/database/connections.ts";
import { createDatabase, type Database } from "../../src/database/database.ts";
import { PreparedNames } from "../../src/database/prepared-names.ts";

const SUM = "select $1::int + $2::int as sum";

/** One connection: what is asked of it is asked of the same session. */
function oneConnection(): Database {
  const connections = ownConnections({ urls: [inject("serverUrl")], role: "any" }, { max: 1 });
  onTestFinished(() => connections.close());
  return createDatabase(connections, "everbeat");
}

const namesOn = async (database: Database) =>
  (await database.query<{ name: string }>("select name from pg_prepared_statements order by name", [])).map(
    ({ name }) => name,
  );

test("a statement that is asked often is prepared once, under a name made from its text", async () => {
  const database = oneConnection();
  for (const n of [1, 2, 3]) expect(await database.query(SUM, [n, 1], "often")).toEqual([{ sum: n + 1 }]);
  await database.query("select $1::int as n", [1]);
  const names = new PreparedNames();
  expect(await namesOn(database)).toEqual([names.of(SUM)]);
  expect(names.of(`${SUM} -- another`)).not.toBe(names.of(SUM));
});

test("a name that the server has forgotten, as behind a pooler, is done without from then on", async () => {
  const database = oneConnection();
  await database.query(SUM, [1, 1], "often");
  await database.query("deallocate all");
  expect(await database.query(SUM, [2, 3], "often")).toEqual([{ sum: 5 }]);
  expect(await database.query(SUM, [2, 4], "often")).toEqual([{ sum: 6 }]);
  expect(await namesOn(database)).toEqual([]);
});

test("so is one that somebody else has given there already", async () => {
  const database = oneConnection();
  await database.query(`prepare ${new PreparedNames().of(SUM)} as select 'another'`);
  expect(await database.query(SUM, [1, 1], "often")).toEqual([{ sum: 2 }]);
});

test("and one whose statement has another result since a migration", async () => {
  const database = oneConnection();
  const name = `changing_${process.pid}_${Date.now()}`;
  await database.query(`create function ${name}() returns table (a int) language sql as 'select 1'`);
  onTestFinished(() =>
    oneConnection()
      .query(`drop function ${name}()`)
      .then(() => {}),
  );
  const ask = () => database.query(`select * from ${name}() where $1::int = 1`, [1], "often");
  expect(await ask()).toEqual([{ a: 1 }]);
  await database.query(
    `drop function ${name}(); create function ${name}() returns table (b text) language sql as 'select ''x'''`,
  );
  expect(await ask()).toEqual([{ b: "x" }]);
});

test("an error of the statement's own is no matter of its name", async () => {
  const database = oneConnection();
  await expect(database.query("select 1 / $1::int as n", [0], "often")).rejects.toMatchObject({ code: "22012" });
  expect(await database.query("select 1 / $1::int as n", [1], "often")).toEqual([{ n: 1 }]);
  expect(await namesOn(database)).toHaveLength(1);
});

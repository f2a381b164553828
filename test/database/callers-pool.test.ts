/** A pool of the caller's: Everbeat listens for the errors of its connections, and hides none of them. */
import type pg from "pg";
import { afterAll, expect, test } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { createCallersPool } from "../support/callers-pool.ts";
import { createTestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const database = await createTestDatabase();
afterAll(() => database.drop());

const EVENTS = ["error", "acquire", "release", "connect", "remove"] as const;
const listenersOf = (pool: pg.Pool) => EVENTS.map((event) => pool.listenerCount(event));

function createPool(): pg.Pool {
  return createCallersPool({ connectionString: database.url, max: 3, application_name: "caller's" });
}

test("a connection that is ended, in use or not, is told to the caller's own listeners", async () => {
  const pool = createPool();
  const heard = new Set<string>();
  pool.on("error", () => heard.add("of the pool"));
  await using everbeat = await Everbeat.open({ database: pool, log: "silent" });
  const [idle, inUse] = [await pool.connect(), await pool.connect()];
  inUse.on("error", () => heard.add("of the connection"));
  idle.release();
  await database.query("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'caller''s'");
  await eventually(() => heard.size === 2);

  await expect(inUse.query("select 1")).rejects.toThrow();
  inUse.release();
  expect(await everbeat.database.query("select 1 as one", [])).toEqual([{ one: 1 }]);
});

test("it is listened to once, however often it is opened, and no more when all are closed", async () => {
  const pool = createPool();
  const before = listenersOf(pool);
  const opened = await Promise.all(Array.from({ length: 12 }, () => Everbeat.open({ database: pool, log: "silent" })));
  const [first, ...others] = opened as [Everbeat, ...Everbeat[]];
  expect(pool.listenerCount("error")).toBe(1);
  const client = await pool.connect();
  expect(client.listenerCount("error")).toBe(1);
  await Promise.all(others.map((everbeat) => everbeat.close()));
  await first.close();
  await first.close();
  expect(listenersOf(pool)).toEqual(before);
  expect(client.listenerCount("error")).toBe(0);
  client.release();
});

test("one that could not be opened leaves nothing behind on the pool", async () => {
  const pool = createPool();
  const before = listenersOf(pool);
  const opening = Everbeat.open({ database: pool, log: "silent", schema: "absent", migrate: false });
  await expect(opening).rejects.toMatchObject({ code: "SCHEMA_MISSING" });
  expect(listenersOf(pool)).toEqual(before);
});

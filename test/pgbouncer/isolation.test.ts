/** By way of PgBouncer in transaction mode, settings of a session mean nothing: each statement brings its own isolation level. */
import pg from "pg";
import { afterAll, beforeAll, expect, inject, onTestFinished, test, vi } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { createTestDatabase } from "../support/database.ts";
import { ALL_READ_COMMITTED, levelsSeen, useEverything, watchLevels } from "../support/isolation-levels.ts";
import { type PgBouncer, startPgBouncer } from "../support/pgbouncer.ts";

vi.setConfig({ testTimeout: 90_000 });

let pooler: PgBouncer;
beforeAll(async () => {
  pooler = await startPgBouncer(inject("serverUrl"));
});
afterAll(async () => {
  await pooler.stop();
});

test.each(["an address", "a pool of the caller's"])(
  "with %s, all is written in read committed, and within low time limits",
  async (given) => {
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    await database.query(`alter database ${database.name} set default_transaction_isolation = 'serializable'`);
    await database.query(`alter database ${database.name} set idle_in_transaction_session_timeout = '100ms'`);
    await database.query(`alter database ${database.name} set statement_timeout = '200ms'`);
    const url = pooler.through(database.url);
    const pool = new pg.Pool({ connectionString: url, max: 6 });
    onTestFinished(() => pool.end());
    const everbeat = await Everbeat.open({ database: given === "an address" ? url : pool, log: "silent" });
    onTestFinished(() => everbeat.close({ now: true }));
    await watchLevels(database);
    await useEverything(everbeat, database);
    expect(await levelsSeen(database)).toEqual(ALL_READ_COMMITTED);
    // Nothing was left behind on the sessions that others get.
    const seen = await Promise.all(
      Array.from({ length: 8 }, () =>
        pool.query(
          "select current_setting('default_transaction_isolation') as level, current_setting('statement_timeout') as limit",
        ),
      ),
    );
    for (const { rows } of seen) expect(rows).toEqual([{ level: "serializable", limit: "200ms" }]);
  },
);

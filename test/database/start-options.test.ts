/** Options at the start of a connection: poolers refuse them, and callers have their own. */
import pg from "pg";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { OpenOptions } from "../../src/config/open-options.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { createCallersPool } from "../support/callers-pool.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { startOptionRefusingProxy } from "../support/option-refusing-proxy.ts";

const add = defineTask({ name: "add", run: async (n: number) => n + 1 });

async function freshDatabase(): Promise<TestDatabase> {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  return database;
}

async function startWorker(options: OpenOptions) {
  const everbeat = await Everbeat.open({ log: "silent", ...options });
  onTestFinished(() => everbeat.close({ now: true }));
  const beating = new Promise<{ hasSession: boolean }>((resolve) => everbeat.on("heart.beating", resolve));
  await everbeat.work([add], { handleSignals: false });
  return { everbeat, beating };
}

test("a pooler that refuses options in words of its own is no obstacle to a heart and its session", async () => {
  const database = await freshDatabase();
  const proxy = await startOptionRefusingProxy(database.url);
  const asking = new pg.Client({ connectionString: proxy.url, options: "-c app.mark=refused" });
  await expect(asking.connect()).rejects.toThrow("no command-line arguments");
  expect(proxy.refused()).toBe(1);
  const { everbeat, beating } = await startWorker({ database: proxy.url });
  expect(await beating).toMatchObject({ hasSession: true });
  expect(await everbeat.result(await everbeat.enqueue(add, 1))).toBe(2);
  // Nobody has asked for options to find out.
  expect(proxy.refused()).toBe(1);
});

describe("the caller's own options are kept, also by the heart", () => {
  /** What the sessions that wrote a beat have for a setting that the caller made up. */
  async function marksOfHearts(database: TestDatabase, options: () => OpenOptions): Promise<string[]> {
    await using migrated = await Everbeat.open({ database: database.url, log: "silent" });
    await database.query("create table mark (mark text, vanished text, unique (mark, vanished))");
    await database.query(`create function note_mark() returns trigger language plpgsql as $$
      begin
        if current_setting('application_name') = 'everbeat heart' then
          insert into public.mark values (coalesce(current_setting('app.mark', true), 'none'), current_setting('tcp_user_timeout'))
          on conflict do nothing;
        end if;
        return null;
      end $$`);
    await database.query("create trigger marks after update on everbeat.heart execute function note_mark()");
    await startWorker(options());
    const read = () => database.query<{ mark: string; vanished: string }>("select mark, vanished from mark");
    const found = await eventually(read, { until: (rows) => rows.length > 0, what: "a beat" });
    await migrated.close();
    // Its own are set too: the server ends the session of a heart that has vanished.
    for (const { vanished } of found) expect(vanished).not.toBe("0");
    return found.map(({ mark }) => mark);
  }

  test("those of a connection string", async () => {
    const database = await freshDatabase();
    const address = `${database.url}?options=${encodeURIComponent("-c app.mark=kept")}`;
    expect(await marksOfHearts(database, () => ({ database: address }))).toEqual(["kept"]);
  });

  test("those of PGOPTIONS", async () => {
    const database = await freshDatabase();
    onTestFinished(() => void vi.unstubAllEnvs());
    const asked = () => {
      vi.stubEnv("PGOPTIONS", "-c app.mark=kept");
      return { database: database.url };
    };
    expect(await marksOfHearts(database, asked)).toEqual(["kept"]);
  });

  test("those of a pool", async () => {
    const database = await freshDatabase();
    const pool = createCallersPool({ connectionString: database.url, options: "-c app.mark=kept" });
    expect(await marksOfHearts(database, () => ({ database: pool }))).toEqual(["kept"]);
  });
});

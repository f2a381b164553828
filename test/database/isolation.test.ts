/** Databases, roles and pools whose transactions are not "read committed" by default: our own statements are, all the same. */
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import type { OpenOptions } from "../../src/config/open-options.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { createCallersPool } from "../support/callers-pool.ts";
import { createMigratedDatabase, createTestDatabase, type TestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { ALL_READ_COMMITTED, levelsSeen, useEverything, watchLevels } from "../support/isolation-levels.ts";

async function strictDatabase(level = "repeatable read"): Promise<TestDatabase> {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  await database.query(`alter database ${database.name} set default_transaction_isolation = '${level}'`);
  return database;
}

async function open(options: OpenOptions): Promise<Everbeat> {
  const everbeat = await Everbeat.open({
    log: "silent",
    recovery: { runnerHeartbeatInterval: "200ms", claimerHeartbeatInterval: "200ms" },
    ...options,
  });
  onTestFinished(() => everbeat.close({ now: true }));
  return everbeat;
}

const add = defineTask({ name: "add", run: async (n: number) => n + 1 });

describe("where the database's default is another level, everything of ours is written in read committed", () => {
  test.each(["repeatable read", "serializable"])("%s, on connections of our own", async (level) => {
    const database = await strictDatabase(level);
    const everbeat = await open({ database: database.url });
    await watchLevels(database);
    await useEverything(everbeat, database);
    expect(await levelsSeen(database)).toEqual(ALL_READ_COMMITTED);
  });

  test("on a pool of the caller's, whose own transactions stay as they are", async () => {
    const database = await strictDatabase();
    const pool = createCallersPool({ connectionString: database.url, max: 4 });
    const everbeat = await open({ database: pool });
    await watchLevels(database);
    await useEverything(everbeat, database);
    expect(await levelsSeen(database)).toEqual(ALL_READ_COMMITTED);
    const clients = await Promise.all([pool.connect(), pool.connect(), pool.connect(), pool.connect()]);
    for (const client of clients) {
      const { rows } = await client.query("select current_setting('transaction_isolation') as level");
      expect(rows).toEqual([{ level: "repeatable read" }]);
      client.release();
    }
  });

  test("where the pool alone asks for it", async () => {
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const options = "-c default_transaction_isolation=serializable";
    const pool = createCallersPool({ connectionString: database.url, max: 4, options });
    const everbeat = await open({ database: pool });
    await watchLevels(database);
    await useEverything(everbeat, database);
    expect(await levelsSeen(database)).toEqual(ALL_READ_COMMITTED);
  });
});

describe("in a transaction of the caller's at repeatable read", () => {
  async function begun() {
    const database = await createMigratedDatabase();
    onTestFinished(() => database.drop());
    const everbeat = await open({ database: database.url });
    const tx = new pg.Client(database.url);
    await tx.connect();
    onTestFinished(() => tx.end());
    await tx.query("begin isolation level repeatable read");
    await tx.query("select 1 as the_snapshot_is_taken");
    return { everbeat, tx };
  }

  test("a task is there when it commits", async () => {
    const { everbeat, tx } = await begun();
    const id = await everbeat.enqueue(add, 1, { tx });
    await tx.query("commit");
    expect((await everbeat.tasks.show(id))?.state).toBe("pending");
  });

  test("a unique key that was taken meanwhile fails the transaction, which can be begun again; there are never two", async () => {
    const { everbeat, tx } = await begun();
    const holder = await everbeat.enqueue(add, 1, { uniqueKey: "k" });
    await expect(everbeat.enqueue(add, 1, { uniqueKey: "k", tx })).rejects.toMatchObject({ code: "40001" });
    await tx.query("rollback");
    await tx.query("begin isolation level repeatable read");
    expect(await everbeat.enqueue(add, 1, { uniqueKey: "k", tx })).toBe(holder);
    await tx.query("commit");
    expect((await everbeat.tasks.counts()).pending).toBe(1);
  });
});

describe("under a default of repeatable read", () => {
  test("an exclusive key lets one run at a time, and a queue's limit holds, with several workers", async () => {
    const database = await strictDatabase();
    const running = new Map<string, number>();
    const most = new Map<string, number>();
    const enter = (key: string) => {
      const now = (running.get(key) ?? 0) + 1;
      running.set(key, now);
      most.set(key, Math.max(now, most.get(key) ?? 0));
    };
    const spend = defineTask({
      name: "spend",
      async run(key: string) {
        enter(key);
        await new Promise((resolve) => setImmediate(resolve));
        running.set(key, (running.get(key) ?? 0) - 1);
      },
    });
    const everbeats = await Promise.all([1, 2, 3].map(() => open({ database: database.url, poolSize: 3 })));
    const [first] = everbeats as [Everbeat];
    await first.queues.set("narrow", { concurrency: 2 });
    const keyed = Array.from({ length: 200 }, () => "key");
    await first.enqueueMany(spend, keyed, { options: { exclusiveKey: "k" } });
    const limited = Array.from({ length: 200 }, () => "narrow");
    await first.enqueueMany(spend, limited, { options: { queue: "narrow" } });
    await Promise.all(everbeats.map((everbeat) => everbeat.work([spend], { handleSignals: false, concurrency: 8 })));
    await eventually(async () => (await first.tasks.counts()).completed === 400, { within: 60_000 });
    expect(Object.fromEntries(most)).toEqual({ key: 1, narrow: 2 });
  }, 90_000);
});

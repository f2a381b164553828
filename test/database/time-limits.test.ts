/** An administrator has set every time limit low for the role. What Everbeat does takes as long as it takes. */
import pg from "pg";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { OpenOptions } from "../../src/config/open-options.ts";
import { LIMITS } from "../../src/database/session-settings.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { createCallersPool } from "../support/callers-pool.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

vi.setConfig({ testTimeout: 30_000 });

const LOW_MS = 250;
const add = defineTask({ name: "add", run: async (n: number) => n + 1 });

interface LimitedDatabase extends TestDatabase {
  /** For the role that has the limit. */
  readonly limitedUrl: string;
}

/** With a role for which all limits are set that this server knows. */
async function limitedDatabase(): Promise<LimitedDatabase> {
  const database = await createTestDatabase();
  const { name, query } = database;
  onTestFinished(() => database.drop());
  const role = `${name}_limited`;
  await query(`create role ${role} login password 'limited'`);
  onTestFinished(async () => {
    await query(`drop owned by ${role} cascade`);
    await query(`drop role ${role}`);
  });
  await query(`grant all on database ${name} to ${role}`);
  const known = await query<{ name: string }>("select name from pg_settings where name = any ($1)", [LIMITS]);
  for (const limit of known) await query(`alter role ${role} set ${limit.name} = ${LOW_MS}`);
  const address = new URL(database.url);
  address.username = role;
  address.password = "limited";
  return { ...database, limitedUrl: address.href };
}

type Given = "an address" | "a pool of the caller's";
const GIVEN: readonly Given[] = ["an address", "a pool of the caller's"];

async function openAs(given: Given, url: string, options: OpenOptions = {}): Promise<Everbeat> {
  if (given === "an address") return open({ database: url, ...options });
  const pool = createCallersPool({ connectionString: url });
  return open({ database: pool, ...options });
}

async function open(options: OpenOptions): Promise<Everbeat> {
  const everbeat = await Everbeat.open({ log: "silent", ...options });
  onTestFinished(() => everbeat.close({ now: true }));
  return everbeat;
}

/** Sessions of the limited role that have been in this state, each in one go, for longer than the limit. */
function untilLongerThanLimit({ query }: TestDatabase, state: string): Promise<unknown> {
  const look = `select from pg_stat_activity where datname = current_database() and usename = current_database() || '_limited'
    and ${state} and clock_timestamp() - greatest(state_change, query_start) > make_interval(secs => ${(LOW_MS * 1.5) / 1_000})`;
  return eventually(async () => (await query(look)).length > 0, { what: `${state} for longer than the limit` });
}

const WAITS = "wait_event_type = 'Lock' and state = 'active'";

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

test("a migration waits for another one", async () => {
  const database = await limitedDatabase();
  const other = await connect(database.url);
  await other.query("begin");
  await other.query(`select pg_advisory_xact_lock(hashtextextended('everbeat/migrate/"everbeat"', 0))`);
  const opening = open({ database: database.limitedUrl });
  opening.catch(() => {});
  await untilLongerThanLimit(database, WAITS);
  await other.query("rollback");
  await opening;
});

describe.each(GIVEN)("with %s", (given) => {
  test("a call waits for the holder of its unique key", async () => {
    const database = await limitedDatabase();
    const everbeat = await openAs(given, database.limitedUrl);
    const other = await connect(database.url);
    await other.query("begin");
    const first = await everbeat.enqueue(add, 1, { uniqueKey: "k", tx: other });
    const enqueueing = everbeat.enqueue(add, 1, { uniqueKey: "k" });
    enqueueing.catch(() => {});
    await untilLongerThanLimit(database, WAITS);
    await other.query("commit");
    expect(await enqueueing).toBe(first);
  });

  test("a transaction of Everbeat's is not ended between two statements", async () => {
    const database = await limitedDatabase();
    const everbeat = await openAs(given, database.limitedUrl);
    const rows = await everbeat.database.transaction(async (tx) => {
      await tx.query("select 1");
      await untilLongerThanLimit(database, "state = 'idle in transaction'");
      return tx.query("select 2 as two");
    });
    expect(rows).toEqual([{ two: 2 }]);
  });

  test("a slow server claims, ends, beats and sweeps all the same, and hearts keep their sessions", async () => {
    const database = await limitedDatabase();
    const recovery = { runnerHeartbeatInterval: 600, claimerHeartbeatInterval: 600 };
    const everbeat = await openAs(given, database.limitedUrl, { recovery });
    const lost: unknown[] = [];
    everbeat.on("heart.lost", (event) => lost.push(event));
    await database.query(`create function be_slow() returns trigger language plpgsql as $$
      begin
        perform pg_sleep(${(LOW_MS * 1.2) / 1_000});
        return null;
      end $$`);
    for (const table of ["task", "running", "ended", "heart", "listening"])
      await database.query(
        `create trigger slow after insert or update on everbeat.${table} execute function public.be_slow()`,
      );
    const count = async (from: string) =>
      (await database.query<{ n: number }>(`select count(*)::int as n from ${from}`))[0]?.n ?? 0;
    await everbeat.work([add], { handleSignals: false });
    expect(await everbeat.result(await everbeat.enqueue(add, 1), { timeout: 20_000 })).toBe(2);
    await eventually(() => count("everbeat.listening where swept_at is not null"), { what: "a sweep" });
    // Between two beats it is idle for longer than the limit.
    const heart = "pg_stat_activity where application_name = 'everbeat heart' and datname = current_database()";
    await eventually(() => count(`${heart} and clock_timestamp() - backend_start > '2s'`), {
      what: "a lasting session",
    });
    expect(lost).toEqual([]);
  });
});

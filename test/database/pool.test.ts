/** Our own pool, on a real server. */
import pg from "pg";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { Pool, type PoolOptions } from "../../src/database/pool.ts";
import { createTestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const database = await createTestDatabase();
afterAll(() => database.drop());

const NAME = "pool of the test";
const OPEN = `select pid from pg_stat_activity where application_name = '${NAME}'`;
const countOpen = async () => (await database.query(OPEN)).length;

async function connectTo(url: string, watch: (client: pg.Client) => void): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: NAME });
  watch(client);
  await client.connect();
  return client;
}

const open = (options: Partial<PoolOptions> = {}) =>
  new Pool({
    max: 2,
    connect: (watch) => connectTo(database.url, watch),
    waitMs: 10_000,
    idleMs: 10_000,
    ...options,
  });

const pidOf = async (client: pg.Client) =>
  (await client.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]?.pid;

test("the connection given back last is handed out first, at once", async () => {
  const pool = open();
  const [first, second] = [await pool.acquire(), await pool.acquire()];
  pool.release(first, false);
  pool.release(second, false);
  expect(pool.acquire()).toBe(second);
  expect(pool.acquire()).toBe(first);
  for (const client of [first, second]) pool.release(client, false);
  await pool.close();
  await eventually(countOpen, { until: (n) => n === 0 });
});

test("while all are in use callers wait, in the order in which they came", async () => {
  const pool = open({ max: 1 });
  const held = await pool.acquire();
  const order: string[] = [];
  const waiting = ["a", "b"].map(async (name) => {
    const client = await pool.acquire();
    order.push(name);
    pool.release(client, false);
  });
  expect(await countOpen()).toBe(1);
  expect(order).toEqual([]);
  pool.release(held, false);
  await Promise.all(waiting);
  expect(order).toEqual(["a", "b"]);
  await pool.close();
});

test("who waits for too long is told what to do, and takes nothing from those behind", async () => {
  const pool = open({ max: 1, waitMs: 50 });
  const held = await pool.acquire();
  await expect(pool.acquire()).rejects.toMatchObject({
    code: "POOL_EXHAUSTED",
    message: expect.stringMatching(/All 1 connections.*`poolSize`/s),
  });
  const next = pool.acquire();
  pool.release(held, false);
  expect(await next).toBe(held);
  pool.release(held, false);
  await pool.close();
});

test("who waits while no connection can be made is not told that they are in use", async () => {
  const never = new Promise<pg.Client>(() => {});
  const pool = open({ max: 1, waitMs: 50, connect: () => never });
  void pool.acquire();
  await expect(pool.acquire()).rejects.toMatchObject({
    code: "DATABASE_UNAVAILABLE",
    message: expect.stringContaining("none of 1 connections could be made within 50 ms"),
  });
});

test("a connection that is given back in the middle of a transaction is closed", async () => {
  const pool = open({ max: 1 });
  const client = await pool.acquire();
  await client.query("begin");
  pool.release(client, false);
  const other = await pool.acquire();
  expect(other).not.toBe(client);
  pool.release(other, false);
  await pool.close();
});

test("closing does not wait for a server that stands still", async () => {
  const pool = open();
  const client = await pool.acquire();
  const pid = (await pidOf(client)) as number;
  pool.release(client, false);
  process.kill(pid, "SIGSTOP");
  onTestFinished(() => void process.kill(pid, "SIGCONT"));
  await pool.close();
});

test("a connection that breaks while nobody uses it is not handed out again", async () => {
  const pool = open();
  const client = await pool.acquire();
  const pid = await pidOf(client);
  pool.release(client, false);
  const ended = new Promise((resolve) => client.once("end", resolve));
  await database.query("select pg_terminate_backend($1)", [pid]);
  await ended;
  const other = await pool.acquire();
  expect(other).not.toBe(client);
  expect(await pidOf(other)).not.toBe(pid);
  pool.release(other, false);
  await pool.close();
});

test.each(["told by its user", "unnoticed by its user"])(
  "a connection that breaks in use (%s) makes room for another, for whoever waits",
  async (how) => {
    const pool = open({ max: 1 });
    const client = await pool.acquire();
    const next = pool.acquire();
    if (how === "unnoticed by its user") {
      const ended = new Promise((resolve) => client.once("end", resolve));
      await database.query("select pg_terminate_backend($1)", [await pidOf(client)]);
      await ended;
    }
    pool.release(client, how === "told by its user");
    const other = await next;
    expect(other).not.toBe(client);
    await pidOf(other);
    pool.release(other, false);
    await pool.close();
  },
);

test("a connection that cannot be made fails its own caller only", async () => {
  const nobodyThere = "postgres://127.0.0.1:1/nowhere";
  let tries = 0;
  const pool = open({ max: 1, connect: (watch) => connectTo(tries++ === 0 ? nobodyThere : database.url, watch) });
  const first = pool.acquire();
  const second = pool.acquire();
  await expect(first).rejects.toMatchObject({ code: "ECONNREFUSED" });
  const client = await second;
  await pidOf(client);
  pool.release(client, false);
  await pool.close();
});

test("what nobody has used for a while is closed, what is in use is not", async () => {
  const pool = open({ idleMs: 200 });
  const [used, idle] = [await pool.acquire(), await pool.acquire()];
  const pid = await pidOf(used);
  pool.release(idle, false);
  await eventually(() => database.query(OPEN), {
    until: (left) => left.length === 1 && left[0]?.pid === pid,
    what: "only the one in use to be left",
  });
  pool.release(used, false);
  await eventually(countOpen, { until: (n) => n === 0 });
  pool.release(await pool.acquire(), false);
  await pool.close();
});

test("closing refuses whoever waits or comes, and waits for what is in use", async () => {
  const pool = open({ max: 1 });
  const held = await pool.acquire();
  const waiting = expect(pool.acquire()).rejects.toMatchObject({ code: "CLOSED" });
  let isClosed = false;
  const closed = pool.close().then(() => {
    isClosed = true;
  });
  await waiting;
  expect(() => pool.acquire()).toThrow(/has been closed/);
  await pidOf(held);
  expect(isClosed).toBe(false);
  pool.release(held, false);
  await closed;
  await eventually(countOpen, { until: (n) => n === 0 });
});

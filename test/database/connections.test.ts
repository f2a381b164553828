import { createServer, type Socket } from "node:net";
import type pg from "pg";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { ownConnections } from "../../src/database/connections.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { createCallersPool } from "../support/callers-pool.ts";
import { createTestDatabase, LISTENING } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const database = await createTestDatabase();
afterAll(() => database.drop());
const add = defineTask({ name: "add", run: (n: number) => n + 1 });

describe("a pool of the caller's", () => {
  test("is used and not closed, whatever parsers the application has set for its own types", async () => {
    const upsideDown = { getTypeParser: () => (text: string) => `parsed ${text}` };
    const pool = createCallersPool({ connectionString: database.url, max: 3, types: upsideDown as never });
    const everbeat = await Everbeat.open({ database: pool, log: "silent" });
    const worker = await everbeat.work([add], { handleSignals: false });
    const id = await everbeat.enqueue(add, 1, { metadata: { a: 1 } });
    expect(await everbeat.result(id)).toBe(2);
    expect(await everbeat.tasks.show(id)).toMatchObject({
      state: "completed",
      attempt: 1,
      metadata: { a: 1 },
      startedAt: expect.any(Date),
    });
    await worker.stop();
    await everbeat.close();
    expect((await pool.query("select 1 as one")).rows).toEqual([{ one: "parsed 1" }]);
  });
});

const { hostname, port, username, password, pathname } = new URL(database.url);

test.skipIf(password === "")("a pool that was given its password by itself is listened beside, too", async () => {
  const pool = createCallersPool({
    host: hostname,
    port: Number(port),
    user: username,
    password,
    database: pathname.slice(1),
  });
  const everbeat = await Everbeat.open({ database: pool, log: "silent" });
  const worker = await everbeat.work([add], { handleSignals: false });
  await eventually(async () => (await database.query(`select from ${LISTENING}`)).length > 0, { what: "a listener" });
  await worker.stop();
  await everbeat.close();
});

test("of several hosts the one that answers is found by all who look for it at once", async () => {
  // Turns away one after the other, so that the first has found another host by then.
  const waiting: Socket[] = [];
  const dying = createServer((socket) => void waiting.push(socket)).listen(0, "127.0.0.1");
  onTestFinished(() => void dying.close());
  await new Promise((resolve) => dying.once("listening", resolve));
  const dyingUrl = `postgres://127.0.0.1:${(dying.address() as { port: number }).port}/gone`;
  const connections = ownConnections({ urls: [dyingUrl, database.url], role: "primary" }, { max: 2 });
  const asked = [connections.acquire(), connections.acquire()];
  await eventually(() => waiting.length === 2);
  waiting[0]?.destroy();
  const first = await Promise.race(asked);
  waiting[1]?.destroy();
  const [one, other] = await Promise.all(asked);
  expect([one, other]).toContain(first);
  for (const client of [one, other]) connections.release(client as pg.Client, false);
  await connections.close();
});

test("what has been closed says so at once", async () => {
  const everbeat = await Everbeat.open({ database: database.url, log: "silent" });
  await everbeat.close();
  for (const call of [
    () => everbeat.enqueue(add, 1),
    () => everbeat.tasks.counts(),
    () => everbeat.work([add]),
    () => everbeat.doctor(),
  ]) {
    await expect(call()).rejects.toMatchObject({ code: "CLOSED" });
  }
});

test("the error of a statement leads to whoever asked, not only into the driver", async () => {
  await using everbeat = await Everbeat.open({ database: database.url, log: "silent" });
  const ask = () => everbeat.database.query("select $1::integer / 0", [1]);
  await expect(ask()).rejects.toMatchObject({ code: "22012", stack: expect.stringContaining("database.ts") });
});

test("a pool is not taken for a transaction", async () => {
  const pool = createCallersPool({ connectionString: database.url });
  await using everbeat = await Everbeat.open({ database: pool, log: "silent" });
  await expect(everbeat.enqueue(add, 1, { tx: pool })).rejects.toThrow(/is a pool, not a transaction/);
  await everbeat.close();
});

describe("a database that cannot be had", () => {
  test("is reported with its address, without its password, and with what to do", async () => {
    const closed = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => closed.once("listening", resolve));
    const { port } = closed.address() as { port: number };
    await new Promise((resolve) => closed.close(resolve));
    const opening = Everbeat.open({ database: `postgres://me:secret@127.0.0.1:${port}/db`, log: "silent" });
    await expect(opening).rejects.toMatchObject({
      code: "DATABASE_UNAVAILABLE",
      message: expect.stringContaining(`me:***@127.0.0.1:${port}`),
    });
    await expect(opening).rejects.toMatchObject({ advice: [{ operation: "doctor" }] });
    await expect(opening).rejects.not.toThrow(/secret/);
  });

  test("because of a wrong password says that it is that", async () => {
    const address = new URL(database.url);
    address.username = "nobody_in_particular";
    await expect(Everbeat.open({ database: address.href, log: "silent" })).rejects.toThrow(/nobody_in_particular/);
  });
});

describe("notices", () => {
  test("come back after their connection was cut", async () => {
    await using everbeat = await Everbeat.open({ database: database.url, log: "silent" });
    await everbeat.work([add], { handleSignals: false, pollInterval: "60s" });
    expect(await everbeat.result(await everbeat.enqueue(add, 1))).toBe(2);
    expect(await database.query(`select pg_terminate_backend(pid) from ${LISTENING}`)).toHaveLength(1);
    await eventually(async () => (await database.query(`select from ${LISTENING}`)).length === 1);
    expect(await everbeat.result(await everbeat.enqueue(add, 2), { timeout: "10s" })).toBe(3);
  });

  test("are not needed: without them workers and waiters look by themselves", async () => {
    await using everbeat = await Everbeat.open({ database: database.url, log: "silent" });
    // As behind a pooler.
    const ownSession = everbeat.database.ownSession.bind(everbeat.database);
    const asPooled = async () => {
      const { client, session } = await ownSession();
      return { client, session: { ...session, isDirect: false } };
    };
    Object.assign(everbeat.database, { ownSession: asPooled });
    await everbeat.work([add], { handleSignals: false, pollInterval: 50 });
    expect(await everbeat.result(await everbeat.enqueue(add, 2), { timeout: "10s" })).toBe(3);
    expect(await database.query("select from everbeat.bell where armed")).toEqual([]);
  });
});

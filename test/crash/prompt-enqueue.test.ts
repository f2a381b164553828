/**
 * An enqueue that wakes a worker can be seen before it is durable. What was acknowledged is durable all the same, and no handler
 * starts for what is not.
 */
import { randomUUID } from "node:crypto";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { type CrashDatabase, openCrashDatabase, openThrough } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { holdCommits } from "../support/held-commits.ts";
import { type OwnServer, startOwnServer } from "../support/own-server.ts";
import { startWorker, task } from "../support/worker-process.ts";

const note = task("note");
const PROMPT = "insert_task_promptly(";
const AGAIN = "insert_tasks(";
const SLOW = { within: 30_000 };
const TIMEOUT = { timeout: 120_000 };

/** A server of its own with a worker that sleeps until it is told. */
async function startAsleep(): Promise<{ server: OwnServer; database: CrashDatabase }> {
  const server = await startOwnServer();
  const database = await openCrashDatabase({}, server.url);
  await startWorker({ url: database.url, work: { pollInterval: "1m" }, tasks: [{ handler: "note" }] });
  await eventually(() => database.count("everbeat.bell where armed"), { ...SLOW, what: "the worker to fall asleep" });
  return { server, database };
}

/** A call whose answer is not waited for yet. */
function begin(call: Promise<string>): { isAnswered: () => boolean; answer: Promise<string> } {
  let isAnswered = false;
  const answered = () => {
    isAnswered = true;
  };
  call.then(answered, answered);
  return { isAnswered: () => isAnswered, answer: call };
}

describe("while nothing becomes durable", () => {
  test(
    "the worker is at its claim already; its handler does not start, and the caller is not answered",
    TIMEOUT,
    async () => {
      const { database } = await startAsleep();
      const held = await holdCommits(database.url);
      const { isAnswered, answer } = begin(database.everbeat.enqueue(note, {}));
      await eventually(() => held.waiting("claim_tasks("), { ...SLOW, what: "the claim to come to its commit" });
      expect(await held.waiting(PROMPT)).toBe(1);
      expect(await database.count("everbeat.task")).toBe(1);
      expect(await database.count("effect")).toBe(0);
      expect(isAnswered()).toBe(false);
      await held.release();
      await database.everbeat.result(await answer, { timeout: 30_000 });
      expect(await database.count("effect")).toBe(1);
      await database.expectSound();
    },
  );

  test("a caller whose session is ended asks again, and is not answered either", TIMEOUT, async () => {
    const { database } = await startAsleep();
    const held = await holdCommits(database.url);
    const { isAnswered, answer } = begin(database.everbeat.enqueue(note, {}));
    await eventually(() => held.waiting(PROMPT), SLOW);
    await held.terminate(PROMPT);
    await eventually(() => held.waiting(AGAIN), { ...SLOW, what: "the repeat to wait" });
    expect(isAnswered()).toBe(false);
    await held.release();
    await database.everbeat.result(await answer, { timeout: 30_000 });
    expect(await database.count("everbeat.task")).toBe(1);
    expect(await database.count("effect")).toBe(1);
    await database.expectSound();
  });

  test("the server is killed: the caller asks again, there is one task, and it runs once", TIMEOUT, async () => {
    const { server, database } = await startAsleep();
    const held = await holdCommits(database.url);
    const { isAnswered, answer } = begin(database.everbeat.enqueue(note, {}));
    await eventually(() => held.waiting("claim_tasks("), SLOW);
    expect(isAnswered()).toBe(false);
    await held.releaseAtNextStart();
    await server.kill();
    await server.start();
    await database.everbeat.result(await answer, { timeout: 60_000 });
    expect(await database.count("everbeat.task")).toBe(1);
    expect(await database.count("effect")).toBe(1);
    await database.expectSound();
  });

  test.each([
    ["a unique key", () => ({ uniqueKey: "one" })],
    ["an id of its caller's", () => ({ id: randomUUID() })],
  ])("a task with %s, which others may rely on, is not to be seen", TIMEOUT, async (_, options) => {
    const { database } = await startAsleep();
    const held = await holdCommits(database.url);
    const { isAnswered, answer } = begin(database.everbeat.enqueue(note, {}, options() as object));
    await eventually(async () => (await held.waiting("enqueue_keyed(")) + (await held.waiting(AGAIN)), SLOW);
    expect(await database.count("everbeat.task")).toBe(0);
    expect(isAnswered()).toBe(false);
    await held.release();
    await database.everbeat.result(await answer, { timeout: 30_000 });
    await database.expectSound();
  });

  test("whoever has set commits not to wait is answered at once", TIMEOUT, async () => {
    const { database } = await startAsleep();
    const held = await holdCommits(database.url);
    const lax = await openThrough(`${database.url}?options=${encodeURIComponent("-c synchronous_commit=off")}`);
    const id = await lax.enqueue(note, {});
    await eventually(() => held.waiting("claim_tasks("), SLOW);
    expect(await database.count("effect")).toBe(0);
    await held.release();
    await database.everbeat.result(id, { timeout: 30_000 });
  });
});

describe("when the server is killed, and nobody has written its log but whoever waits for it", () => {
  test("what was acknowledged is there", TIMEOUT, async () => {
    const { database, direct, crash } = await startWithHeldLog();
    // As a worker would; this one never comes for it.
    await direct.query("select everbeat.arm_bells('{*}')");
    const id = await database.everbeat.enqueue(note, {});
    expect((await direct.query("select armed from everbeat.bell")).rows).toEqual([{ armed: false }]);
    await crash();
    expect(await database.query("select id from everbeat.task")).toEqual([{ id }]);
  });

  test.each([
    ["what was only to be seen is lost", 0],
    ["what a repeat was told of is there", 1],
  ])("%s", TIMEOUT, async (_, repeats) => {
    const { database, direct, crash } = await startWithHeldLog();
    const terms = JSON.stringify([{ name: "note", queue: "default", priority: 0, ids: `{${randomUUID()}}` }]);
    const insert = (fresh: boolean) =>
      direct.query("select everbeat.insert_tasks($1, '[[{}]]', $2, true)", [terms, fresh]);
    await insertInLane(direct);
    await direct.query("begin");
    await direct.query("set local synchronous_commit = off");
    await insert(true);
    await direct.query("commit");
    for (let repeat = 0; repeat < repeats; repeat++) await insert(false);
    await crash();
    expect(await database.count("everbeat.task where name = 'note'")).toBe(repeats);
  });
});

/** Its log writer stands still: what no commit waits for stays in memory. */
async function startWithHeldLog() {
  const server = await startOwnServer();
  const database = await openCrashDatabase({}, server.url);
  const direct = new pg.Client(database.url);
  direct.on("error", () => {});
  await direct.connect();
  onTestFinished(() => direct.end().catch(() => {}));
  const { rows } = await direct.query("select pid from pg_stat_activity where backend_type = 'walwriter'");
  const writer = (rows[0] as { pid: number }).pid;
  process.kill(writer, "SIGSTOP");
  let isGone = false;
  const killWriter = () => {
    if (!isGone) process.kill(writer, "SIGKILL");
    isGone = true;
  };
  onTestFinished(killWriter);
  const crash = async () => {
    await server.kill();
    killWriter();
    await server.start();
    await eventually(() => database.query("select 1"), { ...SLOW, what: "the server to be back" });
  };
  return { database, direct, crash };
}

/** So that the lane is known, and durable. */
async function insertInLane(direct: pg.Client): Promise<void> {
  const terms = JSON.stringify([{ name: "other", queue: "default", priority: 0, ids: `{${randomUUID()}}` }]);
  await direct.query("select everbeat.insert_tasks($1, '[[{}]]', true, true)", [terms]);
}

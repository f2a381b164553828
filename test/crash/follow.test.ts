/** What becomes of those who follow a task when its worker, they themselves, or the database end or stand still. */
import { describe, expect, test } from "vitest";
import { holding, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { startFollower } from "../support/follower-process.ts";
import { startOwnServer } from "../support/own-server.ts";
import { SCALED, startWorker, task } from "../support/worker-process.ts";

const deaf = task("deaf");
const DEAF = { handler: "deaf" } as const;

describe("a worker that is killed", () => {
  test.each([
    ["fail", ["recovered", "ended"], { state: "failed" }],
    ["retry", ["recovered", "pending", "running", "ended"], { state: "completed" }],
  ] as const)(
    "with a task that crashes as %s: its followers are told what becomes of it",
    { timeout: 90_000 },
    async (onCrash, kinds, end) => {
      const database = await openCrashDatabase({ recovery: SCALED });
      const worker = await startWorker({
        url: database.url,
        open: { recovery: SCALED },
        tasks: [{ ...DEAF, onCrash }],
      });
      const taskId = await database.everbeat.enqueue(deaf, {});
      await worker.heard({ handler: "begun" });
      await database.untilHeard(worker.replicaId);
      const follower = startFollower({ url: database.url, taskId });
      await follower.heard({ kind: "state", state: "running" });
      const replicas = startFollower({ url: database.url });
      await replicas.heard({ kind: "state" });
      const next = await startWorker({ url: database.url, open: { recovery: SCALED }, tasks: [{ ...DEAF, onCrash }] });
      await replicas.heard({ kind: "joined", replicaId: next.replicaId });
      await worker.kill();
      await replicas.heard({ kind: "dead", replicaId: worker.replicaId });
      if (onCrash === "retry") {
        await follower.heard({ kind: "running" });
        next.release();
      }
      await follower.heard({ kind: "over" });
      expect(follower.updates.slice(1, -1).map(({ kind }) => kind)).toEqual(kinds);
      expect(follower.updates.at(-2)).toMatchObject(end);
      expect(follower.updates[1]).toMatchObject({ replicaId: worker.replicaId });
    },
  );
});

describe("a follower", () => {
  async function running() {
    const database = await openCrashDatabase();
    const worker = await startWorker({ url: database.url, tasks: [DEAF] });
    const taskId = await database.everbeat.enqueue(deaf, {});
    await worker.heard({ handler: "begun" });
    const follower = startFollower({ url: database.url, taskId });
    const first = await follower.heard({ kind: "state", state: "running" });
    /** As if its lease had run out meanwhile. */
    const age = (by: string) => database.query(`update everbeat.follower set until = until - interval '${by}'`);
    return { database, worker, taskId, follower, first, age };
  }

  test("that is killed costs nothing once its lease is over, and another goes on from its position", {
    timeout: 60_000,
  }, async () => {
    const { database, worker, taskId, follower, first, age } = await running();
    await follower.kill();
    await database.everbeat.tasks.cancel(taskId, { grace: "1m" });
    const second = startFollower({ url: database.url, taskId, from: first.position });
    expect(await second.heard({ kind: "cancelling" })).toBe(second.updates[0]);
    await second.kill();
    await age("1 minute");
    worker.release();
    await eventually(async () => (await database.everbeat.tasks.show(taskId)).endedAt !== null);
    expect(await database.query("select kind from everbeat.happening where kind = 'ended'")).toEqual([]);
    // Whoever follows next tidies up what they have left.
    await age("1 hour");
    await database.query("delete from everbeat.happening_mark");
    const third = startFollower({ url: database.url, taskId, from: first.position });
    await third.heard({ kind: "over" });
    expect(third.updates.map(({ kind }) => kind)).toEqual(["ended", "over"]);
    expect(await database.count("everbeat.followed")).toBe(0);
    expect(await database.count("everbeat.follower")).toBe(0);
  });

  test("that stood still for longer than its lease is told the present state, and the end", {
    timeout: 60_000,
  }, async () => {
    const { database, worker, taskId, follower, age } = await running();
    follower.signal("SIGSTOP");
    await age("1 minute");
    await database.everbeat.tasks.retry(taskId, { force: true });
    worker.release();
    await eventually(async () => (await database.everbeat.tasks.show(taskId)).endedAt !== null);
    follower.signal("SIGCONT");
    await follower.heard({ kind: "over" });
    expect(follower.updates.at(-2)).toMatchObject({ kind: "ended", state: "completed" });
  });

  test("whose connections are cut misses nothing", { timeout: 60_000 }, async () => {
    const { database, worker, follower } = await running();
    const cut = () =>
      database.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and application_name <> 'everbeat heart'",
      );
    await cut();
    worker.release();
    await cut();
    await follower.heard({ kind: "over" });
    expect(follower.updates.slice(1).map(({ kind }) => kind)).toEqual(["ended", "over"]);
  });

  test("is told of the end while another transaction stays open, also one that has written about the task before", {
    timeout: 60_000,
  }, async () => {
    const { database, worker, taskId, follower } = await running();
    const open = await holding(database.url, `select everbeat.tell_followers('stalled', array['task ${taskId}'])`);
    worker.release();
    await follower.heard({ kind: "over" });
    expect(follower.updates.slice(1).map(({ kind }) => kind)).toEqual(["ended", "over"]);
    await open.release();
  });
});

describe("a database that stops and starts again", () => {
  test.each([
    ["fast", "in good order"],
    ["immediate", "as in a crash, which empties the tables of happenings"],
  ] as const)(
    "(%s) %s: followers go on with the present state, and are told the end",
    { timeout: 120_000 },
    async (mode, _) => {
      const server = await startOwnServer();
      const database = await openCrashDatabase({}, server.url);
      const worker = await startWorker({ url: database.url, tasks: [DEAF] });
      const taskId = await database.everbeat.enqueue(deaf, {});
      await worker.heard({ handler: "begun" });
      const follower = startFollower({ url: database.url, taskId });
      const first = await follower.heard({ kind: "state", state: "running" });
      await server.stop(mode);
      await server.start();
      expect(await follower.heard({ kind: "state" }, 1)).toMatchObject({ state: "running", missed: true });
      const late = startFollower({ url: database.url, taskId, from: first.position });
      await late.heard({ kind: "state", missed: true });
      worker.release();
      for (const one of [follower, late]) {
        await one.heard({ kind: "over" });
        expect(one.updates.at(-2)).toMatchObject({ kind: "ended", state: "completed" });
      }
      expect(follower.updates.map(({ kind }) => kind)).toEqual(["state", "state", "ended", "over"]);
    },
  );
});

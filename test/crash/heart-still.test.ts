/** Workers that stand still, are busy, or lose their heart's connection over and over: only the first of them is dead. */
import { describe, expect, test, vi } from "vitest";
import { openCrashDatabase } from "../support/crash-database.ts";
import { startCuttingProxy } from "../support/cutting-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { blockTheEventLoop, endTheSessionEverySecond, letNoBeatBeWritten } from "../support/heart-scenes.ts";
import { PATIENT, startWorker, task } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 90_000 });

describe("a worker that is stopped for longer than it takes to be dead, and goes on", () => {
  test("has lost its tasks once: its writes are refused, its handlers are told, and it works on under another id", async () => {
    const database = await openCrashDatabase();
    const { everbeat } = database;
    const tasks = [
      { handler: "hold", name: "obedient", onCrash: "requeue" },
      { handler: "hold", name: "going-on", onCrash: "fail", whenCutOff: "continue" },
    ] as const;
    const options = { url: database.url, open: { recovery: PATIENT }, tasks };
    const first = await startWorker(options);
    const requeued = await everbeat.enqueue(task("obedient"), {});
    const failed = await everbeat.enqueue(task("going-on"), {});
    for (const taskId of [requeued, failed]) await first.heard({ handler: "begun", taskId });
    const second = await startWorker(options);
    first.signal("SIGSTOP");
    await database.untilStatus(first.replicaId, "dead");
    expect((await database.replica(first.replicaId)).death).toMatchObject({ because: "silent" });
    await second.heard({ handler: "begun", taskId: requeued, attempt: 2 });
    await eventually(async () => (await everbeat.tasks.show(failed)).state === "failed");
    const { seen_at: seenAt, beat_at: beatAt } = await database.replica(first.replicaId);

    first.signal("SIGCONT");
    const { replicaId: renamed } = await first.heard({ event: "replica.rejoined", before: first.replicaId });
    for (const taskId of [requeued, failed]) await first.heard({ handler: "aborted", taskId });
    await first.heard({ event: "claim.lost", taskId: failed });
    expect((await database.replica(renamed as string)).status).toBe("online");
    // Nothing that it wrote counted, and what is on record of the dead one is as it was.
    expect(await database.replica(first.replicaId)).toMatchObject({ status: "dead", seen_at: seenAt, beat_at: beatAt });
    expect(await everbeat.tasks.show(requeued)).toMatchObject({
      state: "running",
      attempt: 2,
      replicaId: second.replicaId,
    });
    // It was not dead after all: that costs its tasks nothing.
    expect(await database.crashesOf(requeued)).toBe(0);
    expect(first.messages.filter(({ event }) => event === "task.ended")).toEqual([]);
    const recovered = second.messages.filter(({ event }) => event === "task.recovered");
    expect(recovered.map(({ taskId }) => taskId).sort()).toEqual([requeued, failed].sort());

    await second.kill();
    const next = await everbeat.enqueue(task("obedient"), {});
    await first.heard({ handler: "begun", taskId: next });
  });
});

test("the only worker, stopped for longer than it takes to be dead, goes on with what nobody else would repeat", async () => {
  const database = await openCrashDatabase();
  const tasks = [{ handler: "deaf", onCrash: "fail", whenCutOff: "continue" }] as const;
  const worker = await startWorker({ url: database.url, open: { recovery: PATIENT }, tasks });
  const id = await database.everbeat.enqueue(task("deaf"), {});
  await worker.heard({ handler: "begun", taskId: id });
  worker.signal("SIGSTOP");
  const wakesAt = performance.now() + 10_000;
  await eventually(() => performance.now() > wakesAt, { within: 60_000 });
  worker.signal("SIGCONT");
  const { replicaId } = await worker.heard({ event: "replica.rejoined", before: worker.replicaId });
  expect(await database.everbeat.tasks.show(id)).toMatchObject({ state: "running", attempt: 1, replicaId });
  worker.release();
  expect(await database.everbeat.result(id, { timeout: 10_000 })).toBe("held");
  expect(await database.deaths()).toBe(0);
});

test("a worker whose event loop is blocked for longer than it would take to be dead is shown as blocked and loses nothing", () =>
  blockTheEventLoop(20_000));

test("a worker whose heart's session is ended every second is not dead: each time it has its lock back before that counts", () =>
  endTheSessionEverySecond(20_000, { sessionGrace: "5s" }));

test("a worker that has its lock back, but is cut off each time before that is on record, stops in time all the same", async () => {
  const database = await openCrashDatabase();
  const proxy = await startCuttingProxy(database.url);
  const tasks = [{ handler: "hold", onCrash: "requeue" }] as const;
  const worker = await startWorker({ url: proxy.url, open: { recovery: PATIENT }, tasks });
  const id = await database.everbeat.enqueue(task("hold"), {});
  await worker.heard({ handler: "begun", taskId: id });
  for (let attempt = 0; attempt < 200; attempt++) void proxy.cutBefore("begin_heart(");
  await database.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name = 'everbeat heart'`,
  );
  // Had each new session counted, it would have been the silence that stopped it, three times as late.
  expect(await worker.heard({ event: "replica.fenced" })).toMatchObject({ because: "session-gone" });
  expect(await database.deaths()).toBe(0);
});

test("a worker whose beats are not written for longer than it waits for a reply keeps its session, and its work", () =>
  letNoBeatBeWritten(7_000));

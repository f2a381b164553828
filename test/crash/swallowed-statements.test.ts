/** One connection of a process's pool on which packets are swallowed, without anybody being told, while the others live. */
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { OpenOptions } from "../../src/config/open-options.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { type CrashDatabase, holding, openCrashDatabase, openThrough } from "../support/crash-database.ts";
import { type CuttingProxy, startCuttingProxy } from "../support/cutting-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { startWorker, task, type WorkerProcess } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 90_000 });

const note = defineTask({ name: "note", run: async (_input: { ms?: number }) => {} });
const REPLY_TIMEOUT_MS = 1_500;

async function working(): Promise<{ database: CrashDatabase; proxy: CuttingProxy; worker: WorkerProcess }> {
  const database = await openCrashDatabase();
  const proxy = await startCuttingProxy(database.url);
  const worker = await startWorker({
    ...{ url: proxy.url, open: { replyTimeout: REPLY_TIMEOUT_MS }, tasks: [{ handler: "note" }, { handler: "hold" }] },
    work: { pollInterval: 200, concurrency: 2, prefetch: 4 },
    forward: ["database.lost", "database.locked", "claim.lost", "replica.fenced", "beat.refused"],
  });
  return { database, proxy, worker };
}

/** Every task ends, and the worker has complained of the wait and nothing else. */
async function expectDone(
  { database, worker }: Awaited<ReturnType<typeof working>>,
  ids: readonly string[],
): Promise<void> {
  for (const id of ids) await database.everbeat.result(id, { timeout: 30_000 });
  expect(await worker.heard({ event: "database.lost" })).toMatchObject({
    error: expect.stringContaining(`within ${REPLY_TIMEOUT_MS} ms`),
  });
  expect(worker.messages.filter(({ event }) => event && event !== "database.lost")).toEqual([]);
  expect(await database.query("select from everbeat.replica where status <> 'online'")).toEqual([]);
  await database.expectSound();
}

describe.each([
  ["does not reach the database", "holdBefore"],
  ["is carried out, and its reply is swallowed", "holdReplyTo"],
] as const)("a statement that %s", (_, hold) => {
  test.each(["claim_tasks(", "start_claims(", "end_claims("])("counts as lost after a while: %s", async (statement) => {
    const scene = await working();
    const swallowed = scene.proxy[hold](statement);
    const ids = await scene.database.everbeat.enqueueMany(
      note,
      Array.from({ length: 8 }, () => ({ ms: 20 })),
    );
    await swallowed;
    await expectDone(scene, ids);
    expect(await scene.database.count("effect")).toBe(ids.length);
  });

  test("counts as lost after a while: the look at its own claims", async () => {
    const { database, proxy, worker } = await working();
    const id = await database.everbeat.enqueue(task("hold"), {});
    await worker.heard({ handler: "begun", taskId: id });
    await proxy[hold]("own_claims(");
    // Only another look can tell it.
    await database.everbeat.tasks.cancel(id, { grace: "5m" });
    await expect(database.everbeat.result(id, { timeout: 30_000 })).rejects.toMatchObject({ state: "cancelled" });
    await worker.heard({ event: "database.lost" });
    await database.expectSound();
  });

  test("counts as lost after a while: a sweep", async () => {
    const { database, proxy, worker } = await working();
    await proxy[hold]("begin_sweep(");
    const sweptAt = async () => (await database.everbeat.recovery.listening())?.sweptAt.getTime() ?? 0;
    const before = await sweptAt();
    await eventually(async () => (await sweptAt()) > before, { within: 30_000 });
    await worker.heard({ event: "database.lost" });
  });
});

describe.each([
  ["does not reach the database", "holdBefore"],
  ["is carried out, and its reply is swallowed", "holdReplyTo"],
] as const)("a statement of those who wait to be told that %s counts as lost after a while:", (_, hold) => {
  const later = { queue: "nobody-serves-it" };

  /** An Everbeat of this process behind the proxy, and another one that is not. */
  async function told(options: OpenOptions = {}) {
    const database = await openCrashDatabase();
    const proxy = await startCuttingProxy(database.url);
    const reader = await openThrough(proxy.url, { replyTimeout: REPLY_TIMEOUT_MS, ...options });
    onTestFinished(() => proxy.close());
    const raise = (subject: string) =>
      database.query("select everbeat.raise_alert('queue-locked', $1, 'it is locked', null)", [subject]);
    return { database, proxy, reader, raise };
  }

  test.each([["look"], ["begin"], ["renew"]])("that of a follower: %s", async (which) => {
    const { database, proxy, reader } = await told();
    const id = await database.everbeat.enqueue(note, {}, later);
    const stream = reader.follow(id);
    if (which !== "begin") expect((await stream.next()).value).toMatchObject({ kind: "state" });
    const statement = { look: "happenings_since(", begin: "follow_topics(", renew: "renew_following(" }[which] ?? "";
    const update = stream.next();
    await proxy[hold](statement);
    await database.everbeat.tasks.cancel(id);
    expect((await update).value).toMatchObject({ kind: "ended", state: "cancelled" });
  });

  test.each(['insert into "everbeat".waiter', "select id::text, state, result, error from"])(
    "that of a caller who waits for a result: %s",
    async (statement) => {
      const { database, proxy, reader } = await told();
      const id = await database.everbeat.enqueue(note, {}, later);
      const ended = reader.result(id, { timeout: "1m" });
      ended.catch(() => {});
      await proxy[hold](statement);
      await database.everbeat.tasks.cancel(id);
      await expect(ended).rejects.toMatchObject({ state: "cancelled" });
    },
  );

  test("that of a process that listens for alerts", async () => {
    const { proxy, reader, raise } = await told();
    const raised: string[] = [];
    reader.on("alert.raised", ({ subject }) => void raised.push(subject));
    await raise("a");
    await eventually(() => raised.length === 1);
    const held = proxy[hold]("as c (change, at)");
    await raise("b");
    await held;
    await eventually(() => raised.length === 2, { within: 30_000 });
    expect(raised).toEqual(["a", "b"]);
  });

  test("that of a channel for alerts", async () => {
    const delivered: string[] = [];
    const deliver = async ({ alert }: { alert: { subject: string } }) => void delivered.push(alert.subject);
    const { proxy, raise } = await told({ alertChannels: [{ name: "test", deliver }] });
    const held = proxy[hold]("min(case when d.next_try_at");
    await raise("a");
    await held;
    await raise("b");
    await eventually(() => delivered.includes("b"), { within: 30_000 });
  });
});

test("an outcome that waits for a lock in vain is not written twice", async () => {
  const scene = await working();
  const { database, worker } = scene;
  const id = await database.everbeat.enqueue(task("hold"), {});
  await worker.heard({ handler: "begun", taskId: id });
  const { release } = await holding(database.url, "select from everbeat.running for update");
  worker.release();
  await worker.heard({ event: "database.locked" }, 30_000);
  await release();
  await database.everbeat.result(id, { timeout: 30_000 });
  await database.expectSound();
  expect(worker.messages.filter(({ handler }) => handler === "begun")).toHaveLength(1);
  expect(await database.everbeat.tasks.show(id)).toMatchObject({ attempt: 1, late: [] });
});

test("an outcome does not wait for a round that hangs: it is written on another connection", async () => {
  const database = await openCrashDatabase();
  const proxy = await startCuttingProxy(database.url);
  const worker = await startWorker({
    ...{ url: proxy.url, open: { replyTimeout: "5m" }, tasks: [{ handler: "hold" }] },
    work: { pollInterval: 100, concurrency: 20 },
  });
  const id = await database.everbeat.enqueue(task("hold"), {});
  await worker.heard({ handler: "begun", taskId: id });
  await proxy.holdReplyTo("claim_tasks(");
  worker.release();
  expect(await database.everbeat.result(id, { timeout: 20_000 })).toBe("held");
});

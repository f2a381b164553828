/** What becomes of tasks that wait in hand for a slot when their worker dies or stands still. */
import { once } from "node:events";
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { type CrashDatabase, holding, openCrashDatabase, openThrough } from "../support/crash-database.ts";
import { startCuttingProxy } from "../support/cutting-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { SCALED, startWorker, task } from "../support/worker-process.ts";

const CONCURRENCY = 10;
const TASKS = 8_000;
const wait = task("wait");
const REPLY_TIMEOUT_MS = 12_000;

const startShort = ({ url }: CrashDatabase, through = url) =>
  startWorker({
    url: through,
    open: { recovery: SCALED },
    work: { concurrency: CONCURRENCY, pollInterval: 200 },
    tasks: [{ handler: "wait", onCrash: "requeue" }],
    forward: ["replica.rejoined", "claim.lost", "claim.adopted"],
  });

/** In the middle of many short tasks, with more in hand than there are slots. */
async function startReserving() {
  const database = await openCrashDatabase();
  for (let left = TASKS; left > 0; left -= 1_000) {
    await database.everbeat.enqueueMany(wait, new Array(1_000).fill({ ms: 1 }));
  }
  const first = await startShort(database);
  await eventually(() => database.count("everbeat.running"), {
    until: (owned) => owned > 2 * CONCURRENCY,
    every: 1,
    what: "a reserve",
  });
  return { database, first };
}

const allEnded = ({ count }: CrashDatabase, tasks = TASKS) =>
  eventually(() => count("everbeat.ended where state = 'completed'"), {
    until: (ended) => ended === tasks,
    within: 60_000,
    what: "the end of all",
  });

test("killed with tasks in reserve: all run again, and none is convicted of the death", {
  timeout: 120_000,
}, async () => {
  const { database, first } = await startReserving();
  await first.kill();
  expect(await database.count("everbeat.running")).toBeGreaterThan(CONCURRENCY);
  await startShort(database);
  await allEnded(database);
  expect(await database.count("everbeat.ended where crashes > 0")).toBe(0);
  await database.expectSound();
});

test("paused with tasks in reserve: once others have them, none is begun here", { timeout: 120_000 }, async () => {
  const { database, first } = await startReserving();
  first.signal("SIGSTOP");
  const owned = await database.count("everbeat.running");
  expect(owned).toBeGreaterThan(CONCURRENCY);
  await startShort(database);
  await allEnded(database);
  const begun = () => first.messages.filter((message) => message.handler === "begun").length;
  const before = begun();
  first.signal("SIGCONT");
  await first.heard({ event: "replica.rejoined" });
  // One may have been on the point of beginning.
  expect(begun() - before).toBeLessThanOrEqual(1);
  await database.expectSound();
});

test.each(["cutBefore", "cutReplyTo"] as const)(
  "a reserve is given back and the connection is cut (%s): nothing stays behind, and nothing runs twice",
  { timeout: 120_000 },
  async (cutHow) => {
    const database = await openCrashDatabase();
    const proxy = await startCuttingProxy(database.url);
    const short = await database.everbeat.enqueueMany(wait, new Array(1_000).fill({ ms: 1 }));
    // Some of these are in reserve, taken for short ones, while others have every slot.
    const long = await database.everbeat.enqueueMany(wait, new Array(3 * CONCURRENCY).fill({ ms: 1_000 }));
    const cut = proxy[cutHow]("release_claims(");
    const worker = await startShort(database, proxy.url);
    await cut;
    await allEnded(database, short.length + long.length);
    const begun = worker.messages.filter(({ handler }) => handler === "begun").map(({ taskId }) => taskId);
    expect(begun).toHaveLength(short.length + long.length);
    expect(worker.messages.filter(({ event }) => event !== undefined)).toEqual([]);
    expect(await database.count("everbeat.ended where attempt > 1")).toBe(0);
    await database.expectSound();
  },
);

test("a reserve that is still being given back when the connection has gone is not begun meanwhile", {
  timeout: 120_000,
}, async () => {
  const database = await openCrashDatabase();
  const proxy = await startCuttingProxy(database.url);
  await database.everbeat.enqueueMany(wait, new Array(1_000).fill({ ms: 1 }));
  const long = 3 * CONCURRENCY;
  await database.everbeat.enqueueMany(wait, new Array(long).fill({ ms: 1_500 }));
  const cut = proxy.cutWhileServed("release_claims(");
  const worker = await startShort(database, proxy.url);
  await eventually(() => worker.messages.length > 1_000, { what: "the long ones to begin" });
  // Whoever gives back waits for these rows, and so the first to do so is still at it when it is tried again.
  const lock = await holding(database.url, "select from everbeat.running for update");
  await cut;
  const givingBack = "pg_stat_activity where wait_event_type = 'Lock' and query like '%release_claims(%'";
  await eventually(() => database.count(givingBack), { until: (n) => n === 2, what: "a second one that gives back" });
  const looks = () => proxy.asked("cancel_requested_at is not null");
  const before = looks();
  await eventually(() => looks() > before + 2, { what: "looks for what is ours and is not known" });
  await lock.release();
  await allEnded(database, 1_000 + long);
  const begun = worker.messages.filter(({ handler }) => handler === "begun");
  expect(begun).toHaveLength(1_000 + long);
  expect(worker.messages.filter(({ event }) => event !== undefined)).toEqual([]);
  await database.expectSound();
});

test("a worker that stops does not wait for a reply that does not come, in giving back", async () => {
  const database = await openCrashDatabase();
  const proxy = await startCuttingProxy(database.url);
  const through = await openThrough(proxy.url, { replyTimeout: REPLY_TIMEOUT_MS });
  const held = defineTask({ name: "held", run: (_input: object, { signal }) => once(signal, "abort") });
  await through.enqueueMany(held, [{}, {}, {}]);
  const worker = await through.work([held], { concurrency: 1, prefetch: 2, handleSignals: false });
  await eventually(() => database.count("everbeat.running"), { until: (n) => n === 3 });
  const swallowed = proxy.holdBefore("release_claims(");
  const began = performance.now();
  const stopped = worker.stop({ now: true });
  await swallowed;
  await stopped;
  expect(performance.now() - began).toBeLessThan(REPLY_TIMEOUT_MS);
});

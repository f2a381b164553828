/** What becomes of tasks that wait in hand for a slot when their worker dies or stands still. */
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { type CrashDatabase, holding, openCrashDatabase, openThrough } from "../support/crash-database.ts";
import { type HeldStatement, startCuttingProxy } from "../support/cutting-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { PATIENT, startWorker, task, type WorkerProcess } from "../support/worker-process.ts";

const CONCURRENCY = 10;
const BATCH = 1_000;
const wait = task("wait");
const REPLY_TIMEOUT_MS = 12_000;

const startShort = ({ url }: CrashDatabase, through = url, nodeArguments: readonly string[] = []) =>
  startWorker({
    nodeArguments,
    url: through,
    open: { recovery: PATIENT },
    work: { concurrency: CONCURRENCY, pollInterval: 200 },
    tasks: [{ handler: "wait", onCrash: "requeue" }],
    forward: ["replica.rejoined", "claim.lost", "claim.adopted"],
  });

const enqueue = ({ everbeat }: CrashDatabase, tasks: number, ms: number) =>
  everbeat.enqueueMany(wait, new Array(tasks).fill({ ms }));

const SERVED = "pg_stat_activity where datname = current_database() and state = 'active' and pid <> pg_backend_pid()";

/** Stopped in the middle of many short tasks, with more in hand than there are slots, and nothing under way at the database. */
async function stoppedWithReserve(
  nodeArguments?: readonly string[],
): Promise<{ database: CrashDatabase; first: WorkerProcess }> {
  const database = await openCrashDatabase();
  await enqueue(database, BATCH, 1);
  const first = await startShort(database, database.url, nodeArguments);
  const isReserving = async () => (await database.count("everbeat.running")) > 2 * CONCURRENCY;
  const stopThen = async () => {
    if ((await database.count("everbeat.ready")) < 2 * BATCH) await enqueue(database, BATCH, 1);
    if (!(await isReserving())) return false;
    first.signal("SIGSTOP");
    await eventually(() => database.count(SERVED), { until: (n) => n === 0, what: "the last of its statements" });
    if (await isReserving()) return true;
    first.signal("SIGCONT");
    return false;
  };
  await eventually(stopThen, { every: 1, within: 40_000, what: "a reserve" });
  return { database, first };
}

/**
 * Some of the long ones wait in reserve, taken for short ones, while others have every slot: where the machine is quick enough
 * for a reserve to be formed just then, and so they are put in again until this has come about.
 */
async function enqueueUntil(database: CrashDatabase, longMs: number, hasComeAbout: () => boolean): Promise<void> {
  const unfinished = "everbeat.task t where not exists (select from everbeat.ended e where e.task_id = t.id)";
  const putIn = async () => {
    await enqueue(database, BATCH, 1);
    await enqueue(database, 3 * CONCURRENCY, longMs);
    const isOver = async () => hasComeAbout() || (await database.count(unfinished)) === 0;
    await eventually(isOver, { within: 60_000, what: "the end of all, or a reserve" });
    return hasComeAbout();
  };
  await eventually(putIn, { within: 60_000, what: "a reserve of long ones" });
}

/** How many there were. */
async function allEnded({ count }: CrashDatabase): Promise<number> {
  const tasks = await count("everbeat.task");
  return eventually(() => count("everbeat.ended where state = 'completed'"), {
    until: (ended) => ended === tasks,
    within: 60_000,
    what: "the end of all",
  });
}

const begunBy = ({ messages }: WorkerProcess) => messages.filter(({ handler }) => handler === "begun").length;

async function expectEachBegunOnce(worker: WorkerProcess, tasks: number): Promise<void> {
  await eventually(() => begunBy(worker), { until: (begun) => begun >= tasks, what: "the last that it said" });
  expect(begunBy(worker)).toBe(tasks);
}

test("killed with tasks in reserve: all run again, and none is convicted of the death", {
  timeout: 180_000,
}, async () => {
  const { database, first } = await stoppedWithReserve();
  await first.kill();
  await startShort(database);
  await allEnded(database);
  expect(await database.count("everbeat.ended where crashes > 0")).toBe(0);
  await database.expectSound();
});

const SUSPEND = fileURLToPath(new URL("../support/clock-of-suspend.js", import.meta.url));

test.each([
  ["paused", []],
  ["suspended with its machine, whose monotonic clock stood still", ["--import", SUSPEND]],
])(
  "%s with tasks in reserve: once others have them, none is begun here",
  { timeout: 180_000 },
  async (_, nodeArguments) => {
    const { database, first } = await stoppedWithReserve(nodeArguments);
    await startShort(database);
    await allEnded(database);
    const before = begunBy(first);
    first.signal("SIGCONT");
    // Where it is slow to stop what ran, its heart ends it.
    await Promise.race([first.exited, first.heard({ event: "replica.rejoined" })]);
    // One may have been on the point of beginning.
    expect(begunBy(first) - before).toBeLessThanOrEqual(1);
    await database.expectSound();
  },
);

test.each(["cutBefore", "cutReplyTo"] as const)(
  "a reserve is given back and the connection is cut (%s): nothing stays behind, and nothing runs twice",
  { timeout: 180_000 },
  async (cutHow) => {
    const database = await openCrashDatabase();
    const proxy = await startCuttingProxy(database.url);
    let isCut = false;
    void proxy[cutHow]("release_claims(").then(() => {
      isCut = true;
    });
    const worker = await startShort(database, proxy.url);
    await enqueueUntil(database, 1_000, () => isCut);
    await expectEachBegunOnce(worker, await allEnded(database));
    expect(worker.messages.filter(({ event }) => event !== undefined)).toEqual([]);
    expect(await database.count("everbeat.ended where attempt > 1")).toBe(0);
    await database.expectSound();
  },
);

test("a reserve that is still being given back when the connection has gone is not begun meanwhile", {
  timeout: 180_000,
}, async () => {
  const database = await openCrashDatabase();
  const proxy = await startCuttingProxy(database.url);
  let held: HeldStatement | undefined;
  void proxy.holdBefore("release_claims(").then((statement) => {
    held = statement;
  });
  const worker = await startShort(database, proxy.url);
  await enqueueUntil(database, 1_500, () => held !== undefined);
  // Whoever gives back waits for this, and so the first to do so is still at it when it is tried again.
  const lock = await holding(database.url, "lock table everbeat.running in share mode");
  held?.cutWhileServed();
  const waiting = "datname = current_database() and wait_event_type = 'Lock' and query like '%release_claims(%'";
  await eventually(() => database.count(`pg_stat_activity where ${waiting}`), {
    until: (n) => n >= 2,
    what: "a second one that gives back",
  });
  const looks = () => proxy.asked("own_claims(");
  const before = looks();
  await eventually(() => looks() > before + 2, { what: "looks for what is ours and is not known" });
  await lock.release();
  await expectEachBegunOnce(worker, await allEnded(database));
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

/** What becomes of tasks that wait in hand for a slot when their worker dies or stands still. */
import { expect, test } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { startCuttingProxy } from "../support/cutting-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { SCALED, startWorker, task } from "../support/worker-process.ts";

const CONCURRENCY = 10;
const TASKS = 8_000;
const wait = task("wait");

const startShort = ({ url }: CrashDatabase, through = url) =>
  startWorker({
    url: through,
    open: { recovery: SCALED },
    work: { concurrency: CONCURRENCY },
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

/** Being told instead of looking: nobody sleeps through a notice, and a busy queue sends next to none. */
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { startCuttingProxy } from "../support/cutting-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { PATIENT, startWorker, task } from "../support/worker-process.ts";

const quick = task("quick");
const deaf = task("deaf");

/** A look without being told would come a minute late: whoever is missed is missed for good, as far as these tests are concerned. */
const LISTENING = { pollInterval: "1m", concurrency: 4 } as const;

async function latencies({ query }: CrashDatabase): Promise<{ p99: number; most: number }> {
  const [row] = await query<{ p99: number; most: number }>(
    `select percentile_cont(0.99) within group (order by ms)::float8 as p99, max(ms)::float8 as most
     from (select extract(epoch from started_at - created_at) * 1000 as ms from everbeat.tasks) t`,
  );
  return row ?? { p99: Number.NaN, most: Number.NaN };
}

async function startListening({ url }: CrashDatabase, concurrency: number = LISTENING.concurrency) {
  return startWorker({
    url,
    work: { ...LISTENING, concurrency },
    tasks: [{ handler: "quick" }, { handler: "deaf" }],
  });
}

describe("an idle worker", () => {
  test("starts each of 500 tasks when it is enqueued", { timeout: 240_000 }, async () => {
    const database = await openCrashDatabase();
    await startListening(database);
    for (let call = 0; call < 500; call++) {
      const id = await database.everbeat.enqueue(quick, {});
      await database.everbeat.result(id, { timeout: 30_000 });
    }
    const { p99, most } = await latencies(database);
    console.log(`started after: p99 ${p99.toFixed(1)} ms, most ${most.toFixed(1)} ms`);
    expect(most).toBeLessThan(30_000);
  });

  test("misses none of those that several callers enqueue in the moments in which it falls asleep", {
    timeout: 240_000,
  }, async () => {
    const random = seededRandom("wake-ups");
    const database = await openCrashDatabase();
    // More slots than callers: what waits waits for a notice and not for its turn.
    await startListening(database, 50);
    const callers = Array.from({ length: 6 }, async () => {
      for (let call = 0; call < 250; call++) {
        await database.everbeat.enqueue(quick, {}, call % 10 === 0 ? { delay: random.between(1, 50) } : {});
        await new Promise((resume) => setTimeout(resume, random.between(0, 25)));
      }
    });
    await Promise.all(callers);
    await eventually(() => database.count("everbeat.ended"), { until: (n) => n === 1_500, within: 50_000 });
    const { p99, most } = await latencies(database);
    console.log(`started after: p99 ${p99.toFixed(1)} ms, most ${most.toFixed(1)} ms`);
    expect(most).toBeLessThan(30_000);
  });

  test("does not look at all while there is nothing to do, and looks when it is told", {
    timeout: 120_000,
  }, async () => {
    const database = await openCrashDatabase();
    const proxy = await startCuttingProxy(database.url);
    const { replicaId } = await startWorker({
      ...{ url: proxy.url, work: LISTENING, tasks: [{ handler: "quick" }] },
      open: { recovery: PATIENT },
    });
    // After a claim it has a place from which it searches on, and used to look again and again for what lies before it.
    await database.everbeat.result(await database.everbeat.enqueue(quick, {}));
    const looks = () => proxy.asked("claim_tasks");
    const looksDuringBeats = async (beats: number) => {
      const before = looks();
      const seen = new Set<number>();
      await eventually(async () => seen.add(Number((await database.replica(replicaId)).beat_at)).size > beats, {
        within: 40_000,
      });
      return looks() - before;
    };
    // The last look after a claim comes when the search for overlooked tasks may be repeated: the longer that took, the later it is.
    await eventually(() => looksDuringBeats(10), { until: (during) => during === 0, within: 60_000 });
    // It may come even later. But a worker that wakes now and then would do so more than once.
    expect(await looksDuringBeats(20)).toBeLessThanOrEqual(1);
    const before = looks();
    await database.everbeat.result(await database.everbeat.enqueue(quick, {}), { timeout: 30_000 });
    expect(looks()).toBeGreaterThan(before);
  });
});

describe("2,000 tasks enqueued one by one", () => {
  test("send next to no notices while the workers are busy", { timeout: 240_000 }, async () => {
    const database = await openCrashDatabase();
    const worker = await startListening(database);
    const holds = await database.everbeat.enqueueMany(deaf, [{}, {}, {}, {}]);
    for (const id of holds) await worker.heard({ handler: "begun", taskId: id });
    const notices = await countNotices(database);
    for (let call = 0; call < 2_000; call += 20) {
      await Promise.all(Array.from({ length: 20 }, () => database.everbeat.enqueue(quick, {})));
    }
    for (let call = 0; call < 200; call++) await database.everbeat.enqueue(quick, {});
    expect(await database.count("everbeat.ready")).toBe(2_200);
    expect(notices.ready()).toBeLessThan(5);
    worker.release();
    await eventually(() => database.count("everbeat.ended"), { until: (n) => n === 2_204, within: 120_000 });
    expect(notices.ready()).toBeLessThan(50);
  });
});

async function countNotices({ url }: CrashDatabase): Promise<{ ready(): number }> {
  const client = new pg.Client(url);
  await client.connect();
  onTestFinished(() => client.end());
  let ready = 0;
  client.on("notification", ({ payload }) => {
    if (payload?.startsWith("ready ")) ready++;
  });
  await client.query("listen everbeat");
  return { ready: () => ready };
}

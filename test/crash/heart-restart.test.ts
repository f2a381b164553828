/** The only worker is killed and started again: the new one recovers what its predecessor left. */
import { describe, expect, test, vi } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { startCuttingProxy } from "../support/cutting-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { SCALED, startWorker, task } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 90_000 });

const GRACE_MS = 1_000;
const CHECK_MS = 250;
/** What a machine that has other work may take longer. By silence it would be ten times that. */
const SLACK_MS = 5_000;
const recovery = {
  ...{ claimerHeartbeatInterval: 2_000, claimedStaleThreshold: 60_000 },
  ...{ runnerHeartbeatInterval: 2_000, runningStaleThreshold: 60_000 },
  ...{ checkInterval: CHECK_MS, sessionGrace: GRACE_MS },
};

async function untilLater(ms: number): Promise<void> {
  const at = performance.now() + ms;
  await eventually(() => performance.now() >= at);
}

/** As if nothing had been heard of anybody since the server was started: nobody can know of a time before. */
async function letPass(database: CrashDatabase): Promise<void> {
  const [{ interval } = { interval: "" }] = await database.query<{ interval: string }>(
    `select (clock_timestamp() - backend_start - interval '1 second')::text as interval from pg_stat_activity where backend_type = 'checkpointer'`,
  );
  await database.query(`
    update everbeat.replica set started_at = started_at - interval '${interval}', seen_at = seen_at - interval '${interval}';
    update everbeat.heart set beat_at = beat_at - interval '${interval}', session_free_since = session_free_since - interval '${interval}';
    update everbeat.listening set swept_at = swept_at - interval '${interval}', hearing_since = hearing_since - interval '${interval}';
    update everbeat.running set claimed_at = claimed_at - interval '${interval}', started_at = started_at - interval '${interval}'`);
}

test("a worker whose heart is not heard from its very start lives on, since it has nothing to stop, and works once it is heard", async () => {
  const database = await openCrashDatabase();
  const proxy = await startCuttingProxy(database.url);
  proxy.swallowHearts(true);
  const starting = startWorker({ url: proxy.url, tasks: [{ handler: "quick" }], open: { recovery: SCALED } });
  // It has fenced itself, before it was ready, and has come back under another id.
  await eventually(async () => (await database.count("everbeat.replica")) > 1, { within: 60_000 });
  proxy.swallowHearts(false);
  const worker = await starting;
  await database.everbeat.result(await database.everbeat.enqueue(task("quick"), {}), { timeout: 30_000 });
  expect(worker.endedBy).toBeUndefined();
});

describe("the only worker, killed and started again", () => {
  test.each([
    ["after 0.1 s", (_: CrashDatabase) => untilLater(100)],
    ["after as long as the server is up", letPass],
  ])("%s recovers its predecessor's tasks within the grace and a sweep", async (_, pass) => {
    const database = await openCrashDatabase();
    const tasks = [
      { handler: "hold", name: "requeued", onCrash: "requeue" },
      { handler: "hold", name: "failing", onCrash: "fail" },
    ] as const;
    const options = { url: database.url, tasks, open: { recovery } };
    const first = await startWorker(options);
    const requeued = await database.everbeat.enqueue(task("requeued"), {});
    const failing = await database.everbeat.enqueue(task("failing"), {});
    for (const taskId of [requeued, failing]) await first.heard({ handler: "begun", taskId });
    await eventually(async () => (await database.replica(first.replicaId)).vitals);
    await first.kill();
    await pass(database);
    const second = await startWorker(options);
    await second.heard({ handler: "begun", taskId: requeued, attempt: 2 }, 30_000);
    const { death, died_at: diedAt } = await database.replica(first.replicaId);
    expect(death).toMatchObject({ because: "session-lost" });
    const [{ ms } = { ms: 0 }] = await database.query<{ ms: number }>(
      "select (extract(epoch from $1::timestamptz - started_at) * 1000)::float8 as ms from everbeat.replica where id = $2",
      [diedAt, second.replicaId],
    );
    // Its first sweep is the first to see the lock free. It may come only when the last sweep is a quarter of an interval late. A later sweep
    // comes after the grace.
    expect(ms).toBeGreaterThan(GRACE_MS);
    expect(ms).toBeLessThan(GRACE_MS + 2 * 1.25 * CHECK_MS + SLACK_MS);
    expect(await database.everbeat.tasks.show(failing)).toMatchObject({
      state: "failed",
      error: { code: "WORKER_CRASHED" },
    });
    // Neither was alone in the process that died: both are suspects, and neither is charged.
    for (const id of [requeued, failing]) expect(await database.crashesOf(id)).toBe(0);
  });
});

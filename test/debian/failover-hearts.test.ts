/** The primary is killed and its synchronous standby promoted, under workers in the middle of their tasks. */
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { Everbeat } from "../../src/everbeat.ts";
import { createCluster } from "../support/debian-cluster.js";
import { eventually } from "../support/eventually.ts";
import { SCALED, startWorker, task, type WorkerProcess } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 180_000 });

const TASKS = [
  { handler: "deaf", name: "going-on", onCrash: "fail", whenCutOff: "continue" },
  { handler: "hold", name: "repeatable", onCrash: "requeue" },
] as const;

interface HeartState {
  readonly id: string;
  readonly status: string;
  readonly epoch: string;
  readonly sessionEpoch: string | null;
  readonly because: string | null;
}

/** A primary with a synchronous standby, a client, and two workers, of which some have a task of each kind in hand. */
async function inTheMiddle() {
  const primary = await createCluster({ settings: ["synchronous_standby_names=standby"] });
  onTestFinished(() => primary.remove());
  const standby = await primary.standby();
  onTestFinished(() => standby.stop("immediate"));
  const url = `postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`;
  const everbeat = await Everbeat.open({ database: url, log: "silent", recovery: SCALED });
  onTestFinished(() => everbeat.close({ now: true }));
  const start = () => startWorker({ url, tasks: TASKS, open: { recovery: SCALED } });
  const workers = [await start(), await start()];
  const goingOn = await everbeat.enqueue(task("going-on"), {});
  const repeatable = await everbeat.enqueue(task("repeatable"), {});
  for (const taskId of [goingOn, repeatable]) await byOne(workers, { handler: "begun", taskId });
  const { database } = everbeat;
  const epochNow = async () =>
    (await database.query<{ epoch: string }>("select everbeat.current_epoch() as epoch"))[0]?.epoch;
  const hearts = () =>
    database.query<HeartState>(
      `select r.id::text, r.status, h.epoch, h.session_epoch as "sessionEpoch", r.death ->> 'because' as because
       from everbeat.replica r join everbeat.heart h on h.replica_id = r.id order by r.started_at`,
    );
  const before = await epochNow();
  for (const heart of await hearts()) expect(heart).toMatchObject({ epoch: before, sessionEpoch: before });
  return { primary, standby, everbeat, workers, goingOn, repeatable, epochNow, hearts, before };
}

function byOne(workers: readonly WorkerProcess[], fits: object): Promise<unknown> {
  return Promise.any(workers.map((worker) => worker.heard(fits, 30_000)));
}

async function expectNothingLost(scene: Awaited<ReturnType<typeof inTheMiddle>>): Promise<void> {
  const { everbeat, workers, goingOn, repeatable, hearts, epochNow, before } = scene;
  const epoch = await epochNow();
  expect(epoch).not.toBe(before);
  // All that is alive is heard in the new epoch and has its lock of it; what is of the old one has left, and was not judged.
  const living = await eventually(async () => (await hearts()).filter(({ status }) => status === "online"), {
    until: (all) => all.length === 2 && all.every((heart) => heart.epoch === epoch && heart.sessionEpoch === epoch),
    within: 30_000,
    what: "two hearts of the new epoch",
  });
  for (const worker of workers) worker.release();
  for (const id of [goingOn, repeatable]) expect(await everbeat.result(id, { timeout: 30_000 })).toBe("held");
  expect(await everbeat.tasks.show(goingOn)).toMatchObject({ attempt: 1, failures: 0 });
  expect(await everbeat.tasks.show(repeatable)).toMatchObject({ failures: 0 });
  const crashed = await everbeat.database.query("select from everbeat.tasks where crashes > 0");
  expect(crashed).toEqual([]);
  for (const heart of await hearts()) {
    expect(heart.because).toBeNull();
    const isOld = !living.some(({ id }) => id === heart.id);
    if (isOld) expect(heart).toMatchObject({ status: "offline", epoch: before, sessionEpoch: before });
  }
  const [listening] = await everbeat.database.query<{ epoch: string }>("select epoch from everbeat.listening");
  expect(listening?.epoch).toBe(epoch);
  for (const { messages } of workers) {
    expect(messages.filter(({ event }) => event === "replica.dead" || event === "task.recovered")).toEqual([]);
  }
}

describe("a failover to the synchronous standby", () => {
  test("that takes longer than it takes to be dead: what nobody repeats goes on, the rest stops itself, uncharged, and runs again", async () => {
    const scene = await inTheMiddle();
    const { primary, standby, workers, repeatable, everbeat } = scene;
    primary.kill();
    for (const worker of workers) await worker.heard({ event: "replica.fenced" }, 30_000);
    await byOne(workers, { handler: "aborted", taskId: repeatable, code: "CUT_OFF" });
    const deadAt = performance.now() + 3_000;
    await eventually(() => performance.now() > deadAt);
    standby.promote();
    for (const worker of workers) await worker.heard({ event: "replica.rejoined" }, 30_000);
    await byOne(workers, { handler: "begun", taskId: repeatable, attempt: 2 });
    expect((await everbeat.tasks.show(repeatable)).attempts).toMatchObject([{ outcome: "aborted" }, {}]);
    await expectNothingLost(scene);
  });

  test("at once: nobody need even stop", async () => {
    const scene = await inTheMiddle();
    scene.primary.kill();
    scene.standby.promote();
    await eventually(() => scene.epochNow(), { until: (epoch) => epoch !== scene.before, within: 30_000 });
    await expectNothingLost(scene);
  });

  test("in which a worker dies as well: its lock of the old epoch proves nothing, and its silence counts from the new one", async () => {
    const { primary, standby, workers, hearts, everbeat, before } = await inTheMiddle();
    const [dead, left] = workers as [WorkerProcess, WorkerProcess];
    await Promise.all([dead.kill(), primary.kill()]);
    standby.promote();
    const { because, epoch, sessionEpoch } = await eventually(
      async () => (await hearts()).find(({ id }) => id === dead.replicaId),
      { until: (heart) => heart?.status === "dead", within: 30_000 },
    ).then((heart) => heart as HeartState);
    expect({ because, epoch, sessionEpoch }).toEqual({ because: "silent", epoch: before, sessionEpoch: before });
    const [row] = await everbeat.database.query<{ ms: number }>(
      `select (extract(epoch from r.died_at - l.hearing_since) * 1000)::float8 as ms from everbeat.replica r, everbeat.listening l where r.id = $1`,
      [dead.replicaId],
    );
    expect(row?.ms).toBeGreaterThan(3_000);
    expect((await everbeat.replicas()).filter(({ diedAt }) => diedAt !== null)).toHaveLength(1);
    await left.heard({ event: "replica.dead", replicaId: dead.replicaId });
  });
});

/** Every death leaves a post-mortem: what it probably was, and by what evidence. It is never in the way of recovery. */
import pg from "pg";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { PATIENT, SCALED, startWorker, task, type WorkerProcess } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 90_000 });

const open = { recovery: { ...PATIENT, sessionGrace: 500 } };
const TASKS = [{ handler: "hold", onCrash: "fail" }] as const;

/** One works, on a machine of its own; another watches. */
async function openScene(): Promise<{
  database: CrashDatabase;
  worker: WorkerProcess;
  watcher: WorkerProcess;
  id: string;
}> {
  const database = await openCrashDatabase();
  const worker = await startWorker({ url: database.url, open, tasks: TASKS, machineId: "doomed" });
  const id = await database.everbeat.enqueue(task("hold"), {});
  await worker.heard({ handler: "begun", taskId: id });
  await eventually(async () => (await database.replica(worker.replicaId)).vitals?.inHand === 1);
  const watcher = await startWorker({
    url: database.url,
    open,
    tasks: [{ handler: "quick" }],
    machineId: "other",
  });
  return { database, worker, watcher, id };
}

const untilFailed = ({ everbeat }: CrashDatabase, id: string) =>
  eventually(() => everbeat.tasks.show(id), { until: ({ state }) => state === "failed", within: 30_000 });

const untilExamined = ({ everbeat }: CrashDatabase, replicaId: string) =>
  eventually(async () => (await everbeat.recovery.postMortems({ of: replicaId }))[0], { within: 30_000 });

describe("a post-mortem", () => {
  test("of a killed worker and of its attempt is where somebody would look", async () => {
    const { database, worker, watcher, id } = await openScene();
    const { everbeat } = database;
    await worker.kill();
    const failed = await untilFailed(database, id);
    const sentence = "The process ended without a word, as by kill -9 or a crash; nobody saw how.";
    expect(failed.error).toMatchObject({ code: "WORKER_CRASHED", message: expect.stringContaining(sentence) });
    const ofReplica = await untilExamined(database, worker.replicaId);
    expect(ofReplica).toMatchObject({ kind: "replica", cause: "process-ended", sentence, replicaId: worker.replicaId });
    const evidence = ofReplica?.evidence.join("\n");
    expect(evidence).toMatch(/session ended and did not come back/);
    expect(evidence).toMatch(/memory: \d+ of \d+ MiB \(\d+ %\) at its last beat/);
    expect(evidence).toMatch(/it was running 1 task/);
    const [ofAttempt] = await eventually(() => everbeat.recovery.postMortems({ of: id }), {
      until: (found) => found.length === 1,
    });
    expect(ofAttempt).toMatchObject({ kind: "attempt", name: "hold", taskId: id, sentence });
    expect(ofAttempt?.evidence.at(-1)).toBe("its part in it: it ran alone, and is charged with it");
    expect((await everbeat.tasks.show(id)).attempts.at(-1)?.postMortem).toBe(sentence);
    expect((await everbeat.recovery.explain(id)).summary).toContain(sentence);
    expect(watcher.messages.find(({ event }) => event === "replica.examined")).toMatchObject({ sentence });
    const [doomed] = (await everbeat.recovery.reliability()).filter(({ machineId }) => machineId === "doomed");
    expect(doomed).toMatchObject({ deaths: 1, deathsLately: 1, isFlapping: false, upForMs: undefined });
  });

  test("names the kernel's killer as likely where the last beat was at the limit of memory", async () => {
    const { database, worker, id } = await openScene();
    // A limit that its own memory fills. Nobody beats while it stands still, once what was on its way has arrived.
    worker.signal("SIGSTOP");
    const fillItsMemory = () =>
      database.query(
        `update everbeat.heart set signs = (
           select everbeat.signs_of((v || jsonb_build_object('memoryLimit', (v ->> 'rss')::bigint + 4096))::json)
           from cast(everbeat.vitals_of(signs) as jsonb) v)
         where replica_id = $1 and beat_at < clock_timestamp() - interval '1500 milliseconds' returning 1`,
        [worker.replicaId],
      );
    await eventually(fillItsMemory, { until: (rows) => rows.length === 1 });
    await worker.kill();
    await untilFailed(database, id);
    expect(await untilExamined(database, worker.replicaId)).toMatchObject({
      cause: "out-of-memory",
      sentence: expect.stringMatching(/probably killed for its memory: .* at 100 % of the limit/),
    });
  });

  test("sees that a whole machine went, and not only one process of it", async () => {
    const { database, worker } = await openScene();
    const neighbour = await startWorker({
      url: database.url,
      open,
      tasks: [{ handler: "quick" }],
      machineId: "doomed",
    });
    // In one moment: frozen first, they have sent their last beats.
    for (const each of [worker, neighbour]) each.signal("SIGSTOP");
    await Promise.all([worker.kill(), neighbour.kill()]);
    for (const { replicaId } of [worker, neighbour]) {
      await database.untilStatus(replicaId, "dead");
      expect(await untilExamined(database, replicaId)).toMatchObject({ cause: "host-gone" });
    }
  });

  test("says that a killed worker has ended, also where sessions do not count as evidence of its death", async () => {
    const database = await openCrashDatabase();
    const silent = { recovery: { ...SCALED, sessionEvidence: false } };
    const worker = await startWorker({ url: database.url, open: silent, tasks: TASKS, machineId: "doomed" });
    await startWorker({ url: database.url, open: silent, tasks: [{ handler: "quick" }], machineId: "other" });
    await eventually(async () => (await database.replica(worker.replicaId)).vitals, { what: "a beat of its own" });
    await worker.kill();
    await database.untilStatus(worker.replicaId, "dead");
    expect(await untilExamined(database, worker.replicaId)).toMatchObject({
      cause: "process-ended",
      sentence: expect.stringContaining("its database session had ended"),
    });
  });

  test("of a worker that had nothing in hand is written as well", async () => {
    const database = await openCrashDatabase();
    const idle = await startWorker({ url: database.url, open, tasks: TASKS });
    await startWorker({ url: database.url, open, tasks: TASKS });
    await idle.kill();
    expect(await untilExamined(database, idle.replicaId)).toMatchObject({ cause: "process-ended" });
  });
});

describe("recovery goes on", () => {
  test("where post-mortems cannot be written, and that is reported", async () => {
    const { database, worker, watcher, id } = await openScene();
    await database.query("alter table everbeat.post_mortem add constraint never check (false) not valid");
    await worker.kill();
    await eventually(
      async () => (await database.query("select from everbeat.ended where task_id = $1", [id])).length === 1,
      { within: 30_000 },
    );
    expect(await watcher.heard({ event: "post-mortem.failed" })).toMatchObject({ doing: expect.stringContaining(id) });
    const alerts = await database.everbeat.alerts.list({ open: true });
    expect(alerts.map(({ subject }) => subject)).toContain(`the post-mortem of replica ${worker.replicaId}`);
  });

  test("where somebody has locked them, after a short while", async () => {
    const { database, worker, id } = await openScene();
    const locker = new pg.Client(database.url);
    await locker.connect();
    onTestFinished(() => locker.end());
    await locker.query("begin; lock table everbeat.post_mortem in access exclusive mode");
    await worker.kill();
    await eventually(
      async () => (await database.query("select from everbeat.ended where task_id = $1", [id])).length === 1,
      { within: 30_000 },
    );
    await locker.query("rollback");
  });
});

test("a machine whose workers die again and again flaps, and silences are counted", async () => {
  const database = await openCrashDatabase();
  const { everbeat } = database;
  await startWorker({ url: database.url, open, tasks: TASKS, machineId: "calm" });
  for (let death = 0; death < 2; death++) {
    const worker = await startWorker({ url: database.url, open, tasks: TASKS, machineId: "shaky" });
    await worker.kill();
    await database.untilStatus(worker.replicaId, "dead");
  }
  const sleepy = await startWorker({ url: database.url, open, tasks: TASKS, machineId: "shaky" });
  sleepy.signal("SIGSTOP");
  await database.untilStatus(sleepy.replicaId, "dead", 30_000);
  sleepy.signal("SIGCONT");
  await sleepy.heard({ event: "replica.rejoined" }, 30_000);
  const machines = await everbeat.recovery.reliability();
  const [calm, shaky] = ["calm", "shaky"].map((id) => machines.find(({ machineId }) => machineId === id));
  // The third was not dead, as it turned out.
  expect(shaky).toMatchObject({ deaths: 2, deathsLately: 2, isFlapping: true });
  // On a busy machine one of the others may have been silent for a while, too.
  expect(shaky?.silences).toBeGreaterThanOrEqual(1);
  expect(shaky?.silencesLately).toBe(shaky?.silences);
  expect(shaky?.meanMsBetweenDeaths).toBeGreaterThan(0);
  expect(calm).toMatchObject({ deaths: 0, isFlapping: false, upForMs: expect.any(Number) });
});

/** What only shows among several: mass death, the change of reapers, clocks and settings that differ. */
import { fileURLToPath } from "node:url";
import { describe, expect, test, vi } from "vitest";
import type { RecoveryOptions } from "../../src/config/recovery-options.ts";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { PATIENT, SCALED, startWorker, task, type WorkerProcess } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 120_000 });

const TASKS = [{ handler: "hold", onCrash: "requeue" }] as const;
const QUICK = [{ handler: "quick" }] as const;

/** By the database's clock, which is the one that deaths and sweeps are stamped with. */
async function now({ query }: CrashDatabase): Promise<Date> {
  const [{ at } = { at: new Date() }] = await query<{ at: Date }>("select clock_timestamp() as at");
  return at;
}

/** Until it has swept since then. */
async function sweptAfter({ everbeat }: CrashDatabase, at: Date, { replicaId }: WorkerProcess): Promise<void> {
  const hasSwept = async () => {
    const listening = await everbeat.recovery.listening();
    return listening?.sweptBy === replicaId && listening.sweptAt > at;
  };
  await eventually(hasSwept, { every: 5, what: `a sweep by ${replicaId}` });
}

describe("all workers but one, killed at once on machines of their own", () => {
  async function massDeath(hold: number, sessionEvidence = true) {
    const database = await openCrashDatabase();
    // With a grace in which a busy machine has noticed the end of all of them.
    const open = { recovery: { ...PATIENT, sessionEvidence, massDeath: { hold } } };
    const start = (machine: number, tasks: typeof TASKS | typeof QUICK) =>
      startWorker({ url: database.url, open, tasks, machineId: `machine-${machine}`, work: { concurrency: 1 } });
    const doomed = await Promise.all([1, 2, 3].map((machine) => start(machine, TASKS)));
    const ids = await database.everbeat.enqueueMany(task("hold"), [{}, {}, {}]);
    const states = async () =>
      (await Promise.all(ids.map((id) => database.everbeat.tasks.show(id)))).map(({ state }) => state);
    await eventually(async () => (await states()).every((state) => state === "running"));
    const left = await start(4, QUICK);
    await Promise.all(doomed.map((worker) => worker.kill()));
    await left.heard({ event: "recovery.held" });
    const alerts = await database.everbeat.alerts.list({ open: true });
    expect(alerts).toContainEqual(expect.objectContaining({ kind: "mass-death", subject: "hearts", resolvedAt: null }));
    expect(await database.deaths()).toBe(0);
    const heldSince = (await database.everbeat.recovery.listening())?.holds[0]?.since;
    const takeOver = () => start(5, QUICK);
    return { database, left, states, heldSince, takeOver };
  }

  const recovered = (database: CrashDatabase, states: () => Promise<string[]>) =>
    eventually(async () => (await database.deaths()) >= 3 && (await states()).every((state) => state === "pending"), {
      within: 40_000,
    });

  test("are held back with an alert, and recovered at the cap; another reaper does not start it anew", async () => {
    const holdMs = 20_000;
    const { database, left, states, heldSince, takeOver } = await massDeath(holdMs);
    const halfwayAt = Number(heldSince) + holdMs / 2;
    await eventually(async () => Number(await now(database)) > halfwayAt, { within: 30_000 });
    const takenOverAt = await now(database);
    const heir = await takeOver();
    await left.kill();
    await sweptAfter(database, await now(database), heir);
    await recovered(database, states);
    const [row] = await database.query<{ held: number; since: number }>(
      `select (extract(epoch from min(died_at) - $1::timestamptz) * 1000)::float8 as held,
              (extract(epoch from min(died_at) - $2::timestamptz) * 1000)::float8 as since
       from everbeat.replica where machine_id <> 'machine-4'`,
      [heldSince, takenOverAt],
    );
    expect(row?.held).toBeGreaterThan(holdMs - 100);
    // Begun anew by the other, it would have lasted as long from there on; as it was, half of it was over.
    expect(row?.since).toBeLessThan(holdMs);
    await eventually(async () => (await database.everbeat.alerts.list({ open: true })).length === 0);
  });

  test.each([
    ["sessions", true],
    ["silence", false],
  ])(
    "are recovered at once when an operator says that they are dead indeed (by their %s)",
    async (_, sessionEvidence) => {
      const { database, states } = await massDeath(600_000, sessionEvidence);
      expect(await database.everbeat.recovery.confirmDeaths()).toEqual(["hearts"]);
      await recovered(database, states);
      await eventually(async () => (await database.everbeat.recovery.confirmDeaths()).length === 0);
    },
  );

  test("hold nothing where they were all on one machine", async () => {
    const database = await openCrashDatabase();
    const start = (machineId: string, tasks: typeof TASKS | typeof QUICK) =>
      startWorker({ url: database.url, open: { recovery: SCALED }, tasks, machineId });
    const doomed = await Promise.all([1, 2, 3].map(() => start("one", TASKS)));
    const left = await start("other", QUICK);
    await Promise.all(doomed.map((worker) => worker.kill()));
    for (const { replicaId } of doomed) await database.untilStatus(replicaId, "dead");
    expect(left.messages.filter(({ event }) => event === "recovery.held")).toEqual([]);
  });
});

describe("the reaper", () => {
  const sweptBy = async (database: CrashDatabase) => (await database.everbeat.recovery.listening())?.sweptBy;

  /** Two of them, and which one is at it. */
  async function reapers(
    recovery: RecoveryOptions,
  ): Promise<{ database: CrashDatabase; acting: WorkerProcess; other: WorkerProcess }> {
    const database = await openCrashDatabase();
    const start = () => startWorker({ url: database.url, tasks: QUICK, open: { recovery } });
    const workers = [await start(), await start()];
    const acting = await eventually(async () => {
      const by = await sweptBy(database);
      return workers.find(({ replicaId }) => replicaId === by);
    });
    const other = workers.find((worker) => worker !== acting);
    if (!acting || !other) throw new Error("no reaper");
    return { database, acting, other };
  }

  test("that is killed is followed by another, which need not know that it is dead", async () => {
    const late = { ...PATIENT, claimedStaleThreshold: "1m", runningStaleThreshold: "1m", sessionGrace: "15s" } as const;
    const { database, acting, other } = await reapers(late);
    await acting.kill();
    await sweptAfter(database, await now(database), other);
    expect(await database.deaths()).toBe(0);
    await database.untilStatus(acting.replicaId, "dead", 40_000);
  });

  test("may have a wall clock that is an hour ahead: nobody is dead for that, and the dead are found all the same", async () => {
    const database = await openCrashDatabase();
    const clock = fileURLToPath(new URL("../support/heart-clock-ahead.js", import.meta.url));
    const options = { url: database.url, open: { recovery: PATIENT } };
    const ahead = await startWorker({ ...options, tasks: QUICK, nodeArguments: ["--import", clock] });
    const usual = await startWorker({ ...options, tasks: TASKS });
    const id = await database.everbeat.enqueue(task("hold"), {});
    await usual.heard({ handler: "begun", taskId: id });
    // Both sweep, one after the other, for longer than it takes to be dead: whoever does is held up until the other follows.
    const until = performance.now() + 9_000;
    const takeTurns = async () => {
      for (const [one, other] of [
        [ahead, usual],
        [usual, ahead],
      ] as const) {
        one.signal("SIGSTOP");
        await eventually(async () => (await sweptBy(database)) === other.replicaId, { what: "the other's sweep" });
        one.signal("SIGCONT");
      }
      return performance.now() > until;
    };
    await eventually(takeTurns, { within: 60_000, every: 500 });
    expect(await database.deaths()).toBe(0);
    await usual.kill();
    await database.untilStatus(usual.replicaId, "dead");
    expect((await database.replica(ahead.replicaId)).status).toBe("online");
    expect(
      await eventually(() => database.everbeat.tasks.show(id), { until: ({ state }) => state === "pending" }),
    ).toMatchObject({
      failures: 0,
    });
  });
});

describe("a setting that is lowered while others run", () => {
  test("makes nobody dead before its own heart has promised to have stopped", async () => {
    const database = await openCrashDatabase();
    const slow = { ...SCALED, claimedStaleThreshold: 8_000, runningStaleThreshold: 8_000, sessionEvidence: false };
    const worker = await startWorker({ url: database.url, tasks: TASKS, open: { recovery: slow } });
    const id = await database.everbeat.enqueue(task("hold"), {});
    await worker.heard({ handler: "begun", taskId: id });
    const quick = {
      ...SCALED,
      claimedStaleThreshold: 800,
      runningStaleThreshold: 800,
      warnAfter: 700,
      sessionGrace: 100,
    };
    await startWorker({ url: database.url, tasks: QUICK, open: { recovery: quick } });
    worker.signal("SIGSTOP");
    const { died_at: diedAt, beat_at: beatAt } = await database.untilStatus(worker.replicaId, "dead", 30_000);
    // It promised to have stopped after 7.2 s.
    expect(Number(diedAt) - Number(beatAt)).toBeGreaterThan(7_200);
  });

  test("does not count a session that is gone before the heart has promised to have stopped for that", async () => {
    const database = await openCrashDatabase();
    const slow = { ...SCALED, sessionGrace: 2_500 };
    const worker = await startWorker({ url: database.url, tasks: TASKS, open: { recovery: slow } });
    await startWorker({ url: database.url, tasks: QUICK, open: { recovery: { ...SCALED, sessionGrace: 100 } } });
    const killedAt = await now(database);
    await worker.kill();
    const { died_at: diedAt } = await database.untilStatus(worker.replicaId, "dead");
    expect(Number(diedAt) - Number(killedAt)).toBeGreaterThan(2_000);
  });
});

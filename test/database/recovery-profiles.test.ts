/** Each named profile does what its numbers say, by the database's clock, with session evidence off and on. */
import { beforeAll, describe, expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery, PROFILES, type RecoverySettings } from "../../src/config/recovery-options.ts";
import { Events } from "../../src/events.ts";
import type { Everbeat } from "../../src/everbeat.ts";
import { heartPlanOf } from "../../src/heart/heart-plan.ts";
import { claimTasks } from "../../src/sql/claims.ts";
import { registerReplica } from "../../src/sql/replicas.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { openTestEverbeat, type TestDatabase } from "../support/database.ts";
import { createReaper } from "../support/sweeping.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** The numbers of the designs that the profiles are named after; ours last. */
const NUMBERS = {
  replica: {
    ...{ claimerIntervalMs: 10 * SECOND, claimedDeadAfterMs: MINUTE },
    ...{ runnerIntervalMs: 10 * SECOND, runningDeadAfterMs: MINUTE },
    ...{ checkMs: 30 * SECOND, purgeAgeMs: HOUR, purgeEveryMs: HOUR, historyAgeMs: HOUR },
  },
  "claimed-and-running": {
    ...{ claimerIntervalMs: 30 * SECOND, claimedDeadAfterMs: 2 * MINUTE },
    ...{ runnerIntervalMs: 30 * SECOND, runningDeadAfterMs: 5 * MINUTE },
    ...{ checkMs: 30 * SECOND, historyAgeMs: 24 * HOUR },
  },
  "cpu-heavy": {
    ...{ claimerIntervalMs: 30 * SECOND, claimedDeadAfterMs: 2 * MINUTE },
    ...{ runnerIntervalMs: MINUTE, runningDeadAfterMs: 5 * MINUTE },
    ...{ checkMs: 30 * SECOND, historyAgeMs: 24 * HOUR },
  },
  quick: {
    ...{ claimerIntervalMs: 30 * SECOND, claimedDeadAfterMs: 2 * MINUTE },
    ...{ runnerIntervalMs: 10 * SECOND, runningDeadAfterMs: 30 * SECOND },
    ...{ checkMs: 30 * SECOND, historyAgeMs: 24 * HOUR },
  },
  fast: {
    ...{ claimerIntervalMs: 2 * SECOND, claimedDeadAfterMs: 15 * SECOND },
    ...{ runnerIntervalMs: 2 * SECOND, runningDeadAfterMs: 15 * SECOND },
    ...{ checkMs: 250, historyAgeMs: 24 * HOUR },
  },
} satisfies Record<keyof typeof PROFILES, Partial<RecoverySettings>>;

/** How far below a threshold is looked, for a machine that takes its time between setting a stamp and sweeping. */
const WELL_BELOW_MS = 5 * SECOND;
const ABOVE_MS = 100;

let everbeat: Everbeat;
let database: TestDatabase;
beforeAll(async () => {
  ({ everbeat, database } = await openTestEverbeat());
});

const held = defineTask({ name: "held", run: async (_input: object) => {} });

/** An owner with one task claimed and one running, somebody else who is alive and sweeps, and a world without anybody else. */
async function scene(settings: RecoverySettings) {
  await database.query(
    "truncate everbeat.replica, everbeat.heart, everbeat.machine, everbeat.listening, everbeat.turn, everbeat.running, everbeat.ready",
  );
  const join = async (name: string): Promise<ReplicaId> => {
    const id = newReplicaId();
    await registerReplica(everbeat.database, {
      ...{ id, machineId: name, hostname: name, pid: 1, version: "0", tasks: ["held"], queues: undefined },
      ...{ recovery: settings, promise: heartPlanOf(settings).promise },
    });
    return id;
  };
  const [owner, reaperId] = [await join("owner"), await join("reaper")];
  await everbeat.enqueueMany(held, [{}, {}]);
  const { claimed } = await claimTasks(everbeat.database, {
    ...{ replicaId: owner, names: ["held"], queues: undefined, room: undefined, run: 1, prefetch: 1, cursors: [] },
  });
  const idOf = (state: string) => claimed.find((one) => one.state === state)?.taskId as string;
  const ids = { claimed: idOf("claimed"), running: idOf("running") };
  const events = new Events((error) => {
    throw error;
  });
  let staleness = 0;
  events.on("replica.stale", () => staleness++);
  const onError = (error: unknown) => {
    throw error;
  };
  const reaper = createReaper({
    database: everbeat.database,
    events,
    settings,
    replica: { id: reaperId },
    onError,
    isMoving: () => false,
  });
  await reaper.runOnce();
  const sweep = async () => {
    await reaper.runOnce();
    const [row] = await database.query<{ status: string; because: string | null }>(
      "select status, death ->> 'because' as because from everbeat.replica where id = $1",
      [owner],
    );
    const [claimedTask, runningTask] = [await everbeat.tasks.show(ids.claimed), await everbeat.tasks.show(ids.running)];
    return { owner: row?.status, because: row?.because, claimed: claimedTask.state, running: runningTask.state };
  };
  /** As if the owner had last been heard so long ago, and everybody else all the time. */
  const beSilentFor = async (ms: number) => {
    await database.query(
      `with l as (update everbeat.listening set swept_at = clock_timestamp(), hearing_since = clock_timestamp() - interval '1 day'),
            r as (update everbeat.replica set started_at = clock_timestamp() - interval '1 day')
       update everbeat.heart set beat_at = clock_timestamp() - make_interval(secs => case replica_id when $1 then $2::float8 / 1000 else 0 end)`,
      [owner, ms],
    );
  };
  return {
    async silentFor(ms: number) {
      await beSilentFor(ms);
      return sweep();
    },
    /** Heard just now, and its session lock seen free for so long. */
    async sessionFreeFor(ms: number) {
      await beSilentFor(0);
      await database.query(
        `update everbeat.heart set session_epoch = everbeat.current_epoch(), session_free_since = clock_timestamp() - make_interval(secs => $2::float8 / 1000)
         where replica_id = $1`,
        [owner, ms],
      );
      return sweep();
    },
    staleness: () => staleness,
  };
}

function settingsOf(profile: string, sessionEvidence: boolean): RecoverySettings {
  const problems = new Problems();
  const settings = checkRecovery({ profile, sessionEvidence }, problems);
  expect(problems.list).toEqual([]);
  return settings;
}

const UNTOUCHED = { owner: "online", because: null, claimed: "claimed", running: "running" };

describe.each(Object.keys(NUMBERS) as (keyof typeof NUMBERS)[])("the profile %s", (profile) => {
  describe.each([
    ["off", false],
    ["on", true],
  ])("with session evidence %s", (_, sessionEvidence) => {
    const numbers = NUMBERS[profile];

    test("has the numbers that it promises", () => {
      expect(settingsOf(profile, sessionEvidence)).toMatchObject(numbers);
    });

    test("warns, gives back and declares dead by silence at its own thresholds, and not before", async () => {
      const settings = settingsOf(profile, sessionEvidence);
      const { silentFor, staleness } = await scene(settings);
      const { claimedDeadAfterMs, runningDeadAfterMs } = numbers;
      const first = Math.min(claimedDeadAfterMs, runningDeadAfterMs);
      expect(await silentFor(first - WELL_BELOW_MS)).toEqual(UNTOUCHED);
      expect(staleness()).toBe(first - WELL_BELOW_MS >= settings.staleAfterMs ? 1 : 0);
      if (claimedDeadAfterMs < runningDeadAfterMs) {
        const givenBack = { ...UNTOUCHED, claimed: "pending" };
        expect(await silentFor(claimedDeadAfterMs + ABOVE_MS)).toEqual(givenBack);
        expect(await silentFor(runningDeadAfterMs - WELL_BELOW_MS)).toEqual(givenBack);
        expect(staleness()).toBe(1);
      }
      expect(await silentFor(runningDeadAfterMs + ABOVE_MS)).toEqual({
        ...{ owner: "dead", because: "silent", claimed: "pending", running: "failed" },
      });
    });

    test(`${sessionEvidence ? "counts" : "does not count"} a session that is gone`, async () => {
      const { sessionFreeFor } = await scene(settingsOf(profile, sessionEvidence));
      expect(await sessionFreeFor(SECOND - WELL_BELOW_MS)).toEqual(UNTOUCHED);
      const after = await sessionFreeFor(HOUR);
      if (!sessionEvidence) expect(after).toEqual(UNTOUCHED);
      else expect(after).toEqual({ owner: "dead", because: "session-lost", claimed: "pending", running: "failed" });
    });
  });
});

test("the profiles say for themselves whether session evidence is on", () => {
  const on = Object.entries(PROFILES).filter(([, { sessionGraceMs }]) => sessionGraceMs !== undefined);
  expect(on).toMatchObject([["fast", { sessionGraceMs: SECOND }]]);
});

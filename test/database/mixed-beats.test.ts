/** Workers that beat every 30 s, while another sweeps that has the default settings: beats every 2 s, a warning from 6 s, dead after 15 s. */
import { beforeEach, describe, expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery, type RecoveryOptions } from "../../src/config/recovery-options.ts";
import { heartPlanOf } from "../../src/heart/heart-plan.ts";
import { heartStateOf } from "../../src/recovery/heart-state.ts";
import { claimTasks } from "../../src/sql/claims.ts";
import { registerReplica } from "../../src/sql/replicas.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { openTestEverbeat } from "../support/database.ts";
import { sweeper } from "../support/sweeping.ts";

const { everbeat, database } = await openTestEverbeat();
const held = defineTask({ name: "held", run: (_input: unknown) => null });
const SLOW: RecoveryOptions = { profile: "claimed-and-running" };
/** A busy machine takes its time between the setting of a stamp and the sweep. */
const WELL_BELOW_MS = 5_000;
const ABOVE_MS = 100;
/** Its heart has promised to have stopped after nine tenths of two minutes; the sweeper waits for a tenth of its own threshold more. */
const DEAD_AFTER_MS = 108_000 + 1_500;

beforeEach(() =>
  database.query(
    "truncate everbeat.replica, everbeat.heart, everbeat.machine, everbeat.listening, everbeat.turn, everbeat.running, everbeat.ready, everbeat.unrest",
  ),
);

async function join(machineId: string, options: RecoveryOptions): Promise<ReplicaId> {
  const settings = checkRecovery(options, new Problems());
  const id = newReplicaId();
  await registerReplica(everbeat.database, {
    ...{ id, machineId, hostname: machineId, pid: 1, version: "0", tasks: ["held"], queues: undefined },
    ...{ recovery: settings, promise: heartPlanOf(settings).promise },
  });
  return id;
}

/** One task claimed and one running. */
async function hold(replicaId: ReplicaId): Promise<{ claimed: string; running: string }> {
  await everbeat.enqueueMany(held, [1, 2]);
  const { claimed } = await claimTasks(everbeat.database, {
    ...{ replicaId, names: ["held"], queues: undefined, room: undefined, run: 1, prefetch: 1, cursors: [] },
  });
  const idOf = (state: string) => String(claimed.find((one) => one.state === state)?.taskId);
  return { claimed: idOf("claimed"), running: idOf("running") };
}

/** As if these had last been heard so long ago, and everybody else all the time. */
async function silence(silent: Readonly<Record<ReplicaId, number>>): Promise<void> {
  await database.query(
    `with l as (update everbeat.listening set swept_at = clock_timestamp(), hearing_since = clock_timestamp() - interval '1 day'),
          r as (update everbeat.replica set started_at = clock_timestamp() - interval '1 day')
     update everbeat.heart set beat_at = clock_timestamp() - make_interval(secs => coalesce(($1::json ->> replica_id::text)::float8, 0) / 1000)`,
    [JSON.stringify(silent)],
  );
}

const statusOf = async (id: ReplicaId) => (await everbeat.replicas()).find((replica) => replica.id === id)?.status;

describe("a worker that beats every 30 s beside a sweeper that beats every 2 s", () => {
  async function scene() {
    const slow = await join("slow", SLOW);
    const tasks = await hold(slow);
    const { sweep, told } = sweeper(everbeat.database, {}, await join("quick", {}));
    await sweep();
    return {
      ...{ slow, tasks, told },
      /** After a sweep: what is shown, counted and explained. */
      async silentFor(ms: number) {
        await silence({ [slow]: ms });
        await sweep();
        await silence({ [slow]: ms });
        const replica = (await everbeat.replicas()).find(({ id }) => id === slow);
        const settings = await everbeat.recovery.settings();
        const machine = (await everbeat.recovery.reliability()).find(({ machineId }) => machineId === "slow");
        return {
          shown: replica && heartStateOf(replica, settings),
          warnings: told.filter(({ event }) => event === "replica.stale").length,
          silences: machine?.silences,
          because: (await everbeat.recovery.explain(tasks.running)).because,
          claimed: (await everbeat.tasks.show(tasks.claimed)).state,
        };
      },
    };
  }

  const WELL = { shown: "fresh", warnings: 0, silences: 0, because: "owner-alive", claimed: "claimed" };

  test("is neither shown as stale nor warned of nor counted before three of its own beats are missing", async () => {
    const { silentFor } = await scene();
    expect(await silentFor(20_000)).toEqual(WELL);
    expect(await silentFor(30_000)).toEqual(WELL);
    expect(await silentFor(90_000 - WELL_BELOW_MS)).toEqual(WELL);
    const warned = { ...WELL, shown: "stale", warnings: 1, silences: 1, because: "owner-stale" };
    expect(await silentFor(90_000 + ABOVE_MS)).toEqual(warned);
    expect(await silentFor(95_000)).toEqual(warned);
  });

  test("does not flap, however often it beats in its own time", async () => {
    const { silentFor, told } = await scene();
    for (let beat = 0; beat < 4; beat++) {
      expect(await silentFor(29_000)).toEqual(WELL);
      expect(await silentFor(0)).toEqual(WELL);
    }
    expect(told.map(({ event }) => event)).toEqual([]);
    expect((await everbeat.recovery.reliability()).map(({ isFlapping }) => isFlapping)).toEqual([false, false]);
  });

  test("is dead, and loses what it has claimed, no sooner than its own heart has promised to have stopped, and a margin", async () => {
    const { silentFor, slow, tasks, told } = await scene();
    expect(await silentFor(DEAD_AFTER_MS - WELL_BELOW_MS)).toMatchObject({ shown: "stale", claimed: "claimed" });
    expect(await statusOf(slow)).toBe("online");
    expect(await silentFor(DEAD_AFTER_MS + ABOVE_MS)).toMatchObject({ shown: "dead", claimed: "pending" });
    expect(told).toContainEqual(expect.objectContaining({ event: "replica.dead", replicaId: slow, because: "silent" }));
    expect((await everbeat.tasks.show(tasks.running)).state).toBe("failed");
  });
});

test("machines whose workers beat every 30 s are not taken for dying: a death beside them is recovered at once", async () => {
  const slow = [await join("a", SLOW), await join("b", SLOW), await join("c", SLOW)];
  const dead = await join("quick", {});
  const { running } = await hold(dead);
  const { sweep, told } = sweeper(everbeat.database, {}, await join("sweeper", {}));
  await sweep();
  await silence({ ...Object.fromEntries(slow.map((id) => [id, 25_000])), [dead]: 16_000 });
  await sweep();
  expect(told).not.toContainEqual(expect.objectContaining({ event: "recovery.held" }));
  expect((await everbeat.tasks.show(running)).state).toBe("failed");
  for (const id of slow) expect(await statusOf(id)).toBe("online");
});

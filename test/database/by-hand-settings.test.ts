/** By hand, owners are judged by the settings that they work by, and not by those of whoever asks. */
import { beforeEach, describe, expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery, type RecoveryOptions, type RecoverySettings } from "../../src/config/recovery-options.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { heartPlanOf } from "../../src/heart/heart-plan.ts";
import { claimTasks } from "../../src/sql/claims.ts";
import { beginSweep } from "../../src/sql/hearts.ts";
import { registerReplica } from "../../src/sql/replicas.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { timeMover } from "../model/move-time.ts";
import { openTestEverbeat } from "../support/database.ts";

/** As `Everbeat.open()` has it: dead after 15 s. */
const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const pass = await timeMover(everbeat.database);

beforeEach(() =>
  database.query("truncate everbeat.replica, everbeat.heart, everbeat.machine, everbeat.listening, everbeat.running"),
);

const settingsOf = (options: RecoveryOptions): RecoverySettings => checkRecovery(options, new Problems());

/** A worker with one task running and one claimed, heard just now. */
async function owner(options: RecoveryOptions): Promise<{ id: ReplicaId; running: string; claimed: string }> {
  const settings = settingsOf(options);
  const id = newReplicaId();
  await registerReplica(everbeat.database, {
    ...{ id, machineId: "m", hostname: "h", pid: 1, version: "0", tasks: ["noop"], queues: undefined },
    ...{ recovery: settings, promise: heartPlanOf(settings).promise },
  });
  await beginSweep(everbeat.database, { id, isReplica: true, places: 1, minIntervalMs: 0, gapMs: 3_600_000 });
  await everbeat.enqueueMany(noop, [1, 2]);
  const { claimed } = await claimTasks(everbeat.database, {
    ...{ replicaId: id, names: ["noop"], queues: undefined, room: undefined, run: 1, prefetch: 1, cursors: [] },
  });
  const idOf = (state: string) => String(claimed.find((one) => one.state === state)?.taskId);
  return { id, running: idOf("running"), claimed: idOf("claimed") };
}

const staleIds = async (on = everbeat) => (await on.recovery.findStale()).map(({ id }) => id).sort();

describe("a worker that beats every 30 s", () => {
  test("is well after 20 s of silence, and nothing of it is failed or given back", async () => {
    const { id, running } = await owner({ profile: "claimed-and-running" });
    await pass(20_000);
    expect(await staleIds()).toEqual([]);
    expect(await everbeat.recovery.failStaleRunning()).toEqual({ count: 0, ids: [] });
    expect(await everbeat.recovery.requeueStaleClaimed()).toEqual({ count: 0, ids: [] });
    expect(await everbeat.recovery.explain(running)).toMatchObject({ because: "owner-alive" });
    // Also where it has not swept itself, and neither has anybody else that is still on record.
    await database.query("update everbeat.listening set swept_by = gen_random_uuid()");
    expect(await everbeat.recovery.explain(running)).toMatchObject({ because: "owner-alive" });
    expect((await everbeat.recovery.settings()).profile).toBe("claimed-and-running");
    await database.query("update everbeat.replica set status = 'offline' where id = $1", [id]);
    expect((await everbeat.recovery.settings()).profile).toBe("claimed-and-running");
  });

  test("has what it claimed given back after two minutes, and what it runs failed after five", async () => {
    const { running, claimed } = await owner({ profile: "claimed-and-running" });
    await pass(121_000);
    expect(await staleIds()).toEqual([claimed]);
    await pass(180_000);
    expect(await staleIds()).toEqual([running, claimed].sort());
  });

  test("is judged by its own settings beside another that has others", async () => {
    const [slow, quick] = [await owner({ profile: "claimed-and-running" }), await owner({})];
    await pass(20_000);
    expect(await staleIds()).toEqual([quick.running, quick.claimed].sort());
    await pass(300_000);
    expect(await staleIds()).toEqual([slow.running, slow.claimed, quick.running, quick.claimed].sort());
  });

  test("keeps what it has from an order with a shorter time, until its heart has promised to have stopped", async () => {
    const { running } = await owner({ profile: "claimed-and-running" });
    await pass(100_000);
    expect(await everbeat.recovery.failStaleRunning({ after: "1s" })).toMatchObject({ count: 0 });
    await pass(10_000);
    expect(await everbeat.recovery.failStaleRunning({ after: "1s" })).toMatchObject({ ids: [running] });
    expect((await everbeat.tasks.show(running)).error?.message).toContain("was alive");
  });
});

test("whoever asks may have settings of its own: they count for owners of which none are on record, and for nobody else", async () => {
  const patient = await Everbeat.open({ database: database.url, log: "silent", recovery: { profile: "replica" } });
  const { id, running, claimed } = await owner({});
  await pass(20_000);
  expect(await staleIds(patient)).toEqual([running, claimed].sort());
  await database.query("update everbeat.replica set recovery = null where id = $1", [id]);
  expect(await staleIds(patient)).toEqual([]);
  await patient.close();
});

test("the settings of a sweeper that has left count no more, once another is here", async () => {
  const slow = await owner({ profile: "claimed-and-running" });
  const quick = await owner({});
  const profiles = async () => (await everbeat.recovery.fleetSettings()).map(({ settings }) => settings.profile);
  expect((await everbeat.recovery.settings()).profile).toBe("fast");
  expect(await profiles()).toEqual(["fast", "claimed-and-running"]);
  const leave = (id: ReplicaId) => database.query("update everbeat.replica set status = 'offline' where id = $1", [id]);
  await leave(quick.id);
  expect((await everbeat.recovery.settings()).profile).toBe("claimed-and-running");
  expect(await profiles()).toEqual(["claimed-and-running"]);
  // Nobody is here: those of the last that swept are the best there is.
  await leave(slow.id);
  expect((await everbeat.recovery.settings()).profile).toBe("fast");
  expect(await profiles()).toEqual(["fast"]);
});

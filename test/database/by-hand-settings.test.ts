/** By hand, owners are judged by the settings that they work by, and not by those of whoever asks. */
import { beforeEach, describe, expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery, type RecoveryOptions, type RecoverySettings } from "../../src/config/recovery-options.ts";
import { Everbeat } from "../../src/everbeat.ts";
import { heartPlanOf } from "../../src/heart/heart-plan.ts";
import { claimTasks } from "../../src/sql/claims.ts";
import { beginSweep } from "../../src/sql/hearts.ts";
import { registerReplica, saveDefinitions } from "../../src/sql/replicas.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { timeMover } from "../model/move-time.ts";
import { openTestEverbeat } from "../support/database.ts";

/** As `Everbeat.open()` has it: dead after 15 s. */
const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const pass = await timeMover(everbeat.database);

beforeEach(() =>
  database.query(
    "truncate everbeat.replica, everbeat.heart, everbeat.machine, everbeat.listening, everbeat.turn, everbeat.running, everbeat.ready, everbeat.definition",
  ),
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
  await beginSweep(everbeat.database, { id, isReplica: true, gapMs: 3_600_000 });
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

test("what is explained goes by the settings that act, and not by those of a sweeper that has left", async () => {
  const [left, dead] = [await owner({ autoFailStaleRunning: false }), await owner({})];
  await owner({});
  await database.query("update everbeat.replica set status = 'dead' where id = $1", [dead.id]);
  await database.query("update everbeat.listening set swept_by = $1", [left.id]);
  expect(await everbeat.recovery.explain(dead.running)).toMatchObject({ because: "recovery-off" });
  await database.query("update everbeat.replica set status = 'offline' where id = $1", [left.id]);
  expect(await everbeat.recovery.explain(dead.running)).toMatchObject({ because: "owner-gone" });
});

describe("an exit that is reported", () => {
  test("has its tasks recovered by the settings of the one that has ended: not at all where they say so", async () => {
    const { id, running, claimed } = await owner({ autoFailStaleRunning: false });
    // Another acts by other settings; those are for silences that it notices.
    await owner({});
    const { verdict, recovered } = await everbeat.recovery.reportExit(id, { signal: "SIGKILL" });
    expect(verdict).toBe("dead");
    expect(recovered).toMatchObject([{ taskId: claimed, action: "released" }]);
    expect((await everbeat.tasks.show(running)).state).toBe("running");
    expect(await everbeat.recovery.explain(running)).toMatchObject({ because: "owner-gone" });
  });

  test("costs a task as much of its crash budget as the one that has ended would have had it cost", async () => {
    const strict = await owner({ crashBudget: 1 });
    await saveDefinitions(everbeat.database, [{ ...noop.settings, onCrash: "requeue" }]);
    const { recovered } = await everbeat.recovery.reportExit(strict.id, { signal: "SIGKILL" });
    expect(recovered).toContainEqual(expect.objectContaining({ taskId: strict.running, action: "quarantined" }));
  });

  test("goes by the settings that act where its own are not on record, and by the asker's where none are", async () => {
    const first = await owner({});
    const acting = await owner({ autoFailStaleRunning: false });
    await database.query("update everbeat.replica set recovery = null where id = $1", [first.id]);
    const { recovered } = await everbeat.recovery.reportExit(first.id, { signal: "SIGKILL" });
    expect(recovered).toMatchObject([{ taskId: first.claimed }]);
    await database.query("update everbeat.replica set recovery = null");
    const cautious = await Everbeat.open({
      ...{ database: database.url, log: "silent", recovery: { autoRequeueStaleClaimed: false } },
    });
    const last = await cautious.recovery.reportExit(acting.id, { signal: "SIGKILL" });
    await cautious.close();
    expect(last.recovered).toMatchObject([{ taskId: acting.running }]);
  });
});

describe("how often the processes of a machine died", () => {
  const HOUR_MS = 3_600_000;
  /** A machine that is known for ten days and had one death in each of them. */
  async function machine(options: RecoveryOptions): Promise<void> {
    await owner(options);
    await database.query("update everbeat.machine set first_seen_at = now() - interval '10 days'");
    await database.query("truncate everbeat.unrest");
    await database.query(
      `insert into everbeat.unrest (kind, machine_id, hostname, replica_id, happened_at)
       select 'dead', 'm', 'h', gen_random_uuid(), now() - make_interval(days => day, hours => -1) from generate_series(1, 10) day`,
    );
  }

  test("is counted as far back as the fleet keeps its record, and not as far as whoever asks would", async () => {
    await machine({ postMortemAge: "1d" });
    const [reliability] = await everbeat.recovery.reliability();
    expect(reliability).toMatchObject({ deaths: 1, observedForMs: 24 * HOUR_MS });
  });

  test("is not forgotten by one that would keep it for a shorter time", async () => {
    await machine({});
    const brief = await Everbeat.open({ database: database.url, log: "silent", recovery: { postMortemAge: "1h" } });
    const [reliability] = await brief.recovery.reliability();
    await brief.close();
    expect(reliability?.deaths).toBe(10);
    expect(reliability?.observedForMs).toBeGreaterThanOrEqual(240 * HOUR_MS);
  });
});

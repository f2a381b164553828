/** No alert stops a sweep, whatever becomes of its row: verdicts are given, tasks are recovered, and a sweep that fails does not count as one. */
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { HEARTS } from "../../src/alert-kinds.ts";
import { PROFILES } from "../../src/config/recovery-options.ts";
import { raiseAlert } from "../../src/sql/alerts.ts";
import { beginHold } from "../../src/sql/holds.ts";
import { saveDefinitions } from "../../src/sql/replicas.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import { handClaimer, putOnRecord } from "../support/claims.ts";
import { holding } from "../support/crash-database.ts";
import { openTestEverbeat } from "../support/database.ts";
import { massDeath } from "../support/mass-death.ts";
import { refuse } from "../support/refusing.ts";
import { anHourLater, sweeper } from "../support/sweeping.ts";
import { unique } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const store = everbeat.database;
beforeEach(() =>
  database.query(
    "truncate everbeat.alert, everbeat.running, everbeat.listening, everbeat.turn, everbeat.replica, everbeat.heart, everbeat.machine",
  ),
);

/** A worker that runs a task and has been silent for an hour, beside one that is well. */
async function silentWorker() {
  const task = defineTask({ name: unique("left"), onCrash: "retry", run: (_input: null) => null });
  await saveDefinitions(store, [task.settings]);
  const id = await everbeat.enqueue(task, null);
  const worker = handClaimer(store, [task.name]);
  await worker.claim();
  await putOnRecord(store, newReplicaId(), []);
  await anHourLater(store);
  await database.query("update everbeat.replica set started_at = now() - interval '1 hour'");
  await database.query(
    "update everbeat.heart set beat_at = case when replica_id = $1 then now() - interval '1 hour' else now() end, promise_ms = 1, interval_ms = 1000",
    [worker.replicaId],
  );
  const statusOf = async () =>
    (
      await database.query<{ status: string }>("select status from everbeat.replica where id = $1", [worker.replicaId])
    )[0]?.status;
  return {
    replicaId: worker.replicaId,
    outcome: async () => ({ replica: await statusOf(), task: (await everbeat.tasks.show(id)).state }),
  };
}

const RECOVERED = { replica: "dead", task: "pending" };
const stopped = () =>
  raiseAlert(store, {
    ...{ kind: "sweeps-stopped", subject: "fleet", message: "" },
    details: { sweptAgoMs: 3_600_000, sweptBy: null },
  });
const open = async () => (await everbeat.alerts.list({ open: true })).map(({ kind }) => kind);

describe("a sweep gives its verdicts and recovers tasks, though", () => {
  test("nobody may change an alert, and nobody has swept for an hour", async () => {
    const { outcome } = await silentWorker();
    await stopped();
    await database.query("update everbeat.listening set swept_at = now() - interval '1 hour'");
    await putOnRecord(store, newReplicaId(), []);
    await refuse(database, "alert", "true");
    const reaper = sweeper(store);
    await reaper.sweep();
    // Nobody had listened in between, so silence counts anew from here on.
    await anHourLater(store);
    await reaper.sweep();
    expect(await outcome()).toEqual(RECOVERED);
  });

  test("nobody may change an alert about what an earlier sweep had passed by", async () => {
    const { outcome } = await silentWorker();
    for (const part of [
      "hearts",
      "silences",
      "verdicts",
      "owners",
      "tasks",
      "post-mortems",
      "releases",
      "alerts",
      "stalls",
    ])
      await raiseAlert(store, {
        ...{ kind: "sweep-passed-by", subject: `something of ${part}`, message: "", part },
        details: { code: "P0001", message: "" },
      });
    const { allow } = await refuse(database, "alert", "true");
    await sweeper(store).sweep();
    expect(await outcome()).toEqual(RECOVERED);
    await allow();
    await anHourLater(store);
    await sweeper(store).sweep();
    expect(await open()).toEqual([]);
  });

  test("the alert of the mass death that is over may not be changed", async () => {
    const { outcome } = await silentWorker();
    await beginHold(store, { source: HEARTS, counted: "machines", keptMs: 60_000 });
    await raiseAlert(store, massDeath());
    const { allow } = await refuse(database, "alert", "new.kind = 'mass-death'");
    const reaper = sweeper(store);
    await reaper.sweep();
    expect(await outcome()).toEqual(RECOVERED);
    expect(reaper.told.map(({ event }) => event)).toContain("recovery.resumed");
    await allow();
    await anHourLater(store);
    await sweeper(store).sweep();
    expect(await open()).toEqual([]);
  });

  test("nobody may write any alert for the moment", { timeout: 30_000 }, async () => {
    const { outcome } = await silentWorker();
    await stopped();
    const { abandon } = await holding(database.url, "lock table everbeat.alert in exclusive mode");
    await sweeper(store).sweep();
    expect(await outcome()).toEqual(RECOVERED);
    await abandon();
  });

  test("the note of a silence waits for a lock", { timeout: 30_000 }, async () => {
    const { outcome } = await silentWorker();
    const stale = newReplicaId();
    await putOnRecord(store, stale, []);
    await database.query(
      "update everbeat.heart set beat_at = now() - interval '9 seconds', interval_ms = 1000 where replica_id = $1",
      [stale],
    );
    await database.query("update everbeat.replica set started_at = now() - interval '1 hour'");
    await database.query(
      "create function public.waiting() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(4712); return new; end $$",
    );
    onTestFinished(() => void database.query("drop function public.waiting() cascade"));
    await database.query(
      "create trigger waiting before insert on everbeat.unrest for each row when (new.kind = 'stale') execute function public.waiting()",
    );
    const { abandon } = await holding(database.url, "select pg_advisory_xact_lock(4712)");
    const reaper = sweeper(store);
    await reaper.sweep();
    expect(reaper.told).toContainEqual(expect.objectContaining({ event: "replica.stale", replicaId: stale }));
    expect(await outcome()).toEqual(RECOVERED);
    await abandon();
    const noted = () => database.query("select from everbeat.unrest where replica_id = $1", [stale]);
    expect(await noted()).toEqual([]);
    await anHourLater(store);
    await reaper.sweep();
    expect(await noted()).toHaveLength(1);
  });
});

describe("sweeps that begin and fail", () => {
  test("count as none: whoever asks hears that nobody listens, and there is an alert", async () => {
    const { replicaId } = await silentWorker();
    await database.query(
      `create function public.away() returns trigger language plpgsql as $$ begin raise exception 'away' using errcode = '08006'; end $$`,
    );
    await database.query(
      "create trigger away before update of status on everbeat.replica for each row execute function public.away()",
    );
    const reaper = sweeper(store);
    const failingFor = async (interval: string) => {
      await database.query("update everbeat.turn set failing_since = now() - $1::interval where service = 'sweep'", [
        interval,
      ]);
      await database.query("update everbeat.turn set taken_at = now() - interval '2 seconds'");
    };
    await expect(reaper.sweep()).rejects.toThrow("away");
    expect((await everbeat.recovery.listening())?.sweptAgoMs).toBeLessThan(PROFILES.fast.checkMs + 3_000);
    await failingFor("1 minute");
    await expect(reaper.sweep()).rejects.toThrow("away");
    expect((await everbeat.recovery.listening())?.sweptAgoMs).toBeGreaterThanOrEqual(60_000);
    const silent = (await everbeat.replicas()).find(({ id }) => id === replicaId);
    expect(silent?.unheardSince).toBeInstanceOf(Date);
    expect(await open()).toContain("sweeps-stopped");
    const found = (await everbeat.doctor()).find(({ check }) => check === "reaper");
    expect(found).toMatchObject({ mark: "wrong", found: expect.stringContaining("nobody has listened for") });
    await database.query("drop function public.away() cascade");
    await database.query("update everbeat.turn set taken_at = now() - interval '2 seconds'");
    await reaper.sweep();
    expect((await everbeat.recovery.listening())?.sweptAgoMs).toBeLessThan(60_000);
    expect(await open()).not.toContain("sweeps-stopped");
  });

  test("raise their alert where what is held cannot be read", { timeout: 30_000 }, async () => {
    const reaper = sweeper(store);
    await anHourLater(store);
    await database.query("update everbeat.listening set swept_at = now() - interval '1 minute'");
    const { abandon } = await holding(database.url, "lock table everbeat.hold in access exclusive mode");
    await expect(reaper.sweep()).rejects.toMatchObject({ code: "55P03" });
    expect(await open()).toEqual(["sweeps-stopped"]);
    await abandon();
  });
});

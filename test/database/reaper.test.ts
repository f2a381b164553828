/** Who sweeps, and what is told about it: reapers on one database, by the database's clock. */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import type { Database } from "../../src/database/database.ts";
import { Events } from "../../src/events.ts";
import type { Everbeat } from "../../src/everbeat.ts";
import { alertIfStopped } from "../../src/recovery/stopped-sweeps.ts";
import { startUpFromMs } from "../../src/services/line.ts";
import { beginSweep } from "../../src/sql/hearts.ts";
import { newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { holding } from "../support/crash-database.ts";
import { openTestEverbeat, type TestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { createReaper } from "../support/sweeping.ts";

let everbeat: Everbeat;
let database: TestDatabase;
beforeAll(async () => {
  ({ everbeat, database } = await openTestEverbeat());
});
beforeEach(() => database.query("truncate everbeat.listening, everbeat.turn, everbeat.alert"));

const settings = checkRecovery({ checkInterval: "1m" }, new Problems());

/** One that tells what it emits. */
function reaper(id: ReplicaId = newReplicaId()) {
  const told: unknown[] = [];
  const fail = (error: unknown) => {
    throw error;
  };
  const events = new Events(fail);
  events.onAny((name, event) => told.push([name, event]));
  const reaper = createReaper({
    database: everbeat.database,
    events,
    settings,
    replica: { id },
    onError: fail,
    isMoving: () => false,
  });
  return { id, runOnce: () => reaper.runOnce(), told };
}

/** As if the last sweep had been that long ago. */
const sweptAgo = (interval: string) =>
  database.query(
    `with t as (update everbeat.turn set taken_at = clock_timestamp() - interval '${interval}')
     update everbeat.listening set swept_at = clock_timestamp() - interval '${interval}'`,
  );
const sweptBy = async () => (await everbeat.recovery.listening())?.sweptBy;

describe("a reaper", () => {
  test("leaves out a sweep that another has just done, and says nothing when it is its turn", async () => {
    const [one, other] = [reaper(), reaper()];
    await other.runOnce();
    await sweptAgo("70 seconds");
    await one.runOnce();
    await other.runOnce();
    expect(await sweptBy()).toBe(one.id);
    await sweptAgo("70 seconds");
    await other.runOnce();
    expect(await sweptBy()).toBe(other.id);
    expect([...one.told, ...other.told]).toEqual([]);
  });

  test("that starts sweeps at once, however long its interval is, and waits for its turn from then on", async () => {
    const [one, other] = [reaper(), reaper()];
    await one.runOnce();
    await sweptAgo("1 second");
    await other.runOnce();
    expect(await sweptBy()).toBe(other.id);
    await sweptAgo("1 second");
    await one.runOnce();
    expect(await sweptBy()).toBe(other.id);
  });

  test("that starts together with others leaves the sweep to one of them", async () => {
    const startedMs = performance.now();
    const many = Array.from({ length: 20 }, () => reaper());
    let sweeps = 0;
    let last: unknown;
    for (const { runOnce } of many) {
      await runOnce();
      const now = await sweptBy();
      if (now !== last) sweeps++;
      last = now;
    }
    expect(sweeps).toBeLessThanOrEqual(1 + (performance.now() - startedMs) / startUpFromMs(settings.checkMs));
  });

  test("sweeps though the last sweep is yet to come, because the server's clock was set back", async () => {
    const [one, other] = [reaper(), reaper()];
    await one.runOnce();
    await sweptAgo("-1 hour");
    await other.runOnce();
    expect(await sweptBy()).toBe(other.id);
    const ago = (await everbeat.recovery.listening())?.sweptAgoMs;
    expect(ago).toBeGreaterThanOrEqual(0);
    expect(ago).toBeLessThan(60_000);
  });

  test("tells of a takeover where the one before did not sweep when it was time, and not where that was itself", async () => {
    const [one, other] = [reaper(), reaper()];
    await one.runOnce();
    await sweptAgo("100 seconds");
    await other.runOnce();
    expect(other.told).toMatchObject([["reaper.took-over", { replicaId: other.id, before: one.id }]]);
    await sweptAgo("100 seconds");
    await other.runOnce();
    expect(other.told).toHaveLength(1);
  });

  test("that finds the row of the sweep's turn locked raises an alert once nobody has swept for too long, and the next sweep ends it", async () => {
    const one = reaper();
    await one.runOnce();
    await sweptAgo("10 minutes");
    await everbeat.database.transaction(async (tx) => {
      await tx.query("select from everbeat.turn where service = 'sweep' for update");
      await one.runOnce();
      await one.runOnce();
    });
    expect(one.told).toMatchObject([["sweeps.stopped", { sweptAgoMs: expect.any(Number) }]]);
    expect(await everbeat.alerts.list({ open: true })).toMatchObject([
      { kind: "sweeps-stopped", message: expect.stringMatching(/^Nobody has listened for silence for 10m/) },
    ]);
    await one.runOnce();
    expect(await everbeat.alerts.list({ open: true })).toEqual([]);
  });

  test("whose sweep came between a look and the alert leaves none behind", async () => {
    const one = reaper();
    await one.runOnce();
    await sweptAgo("10 minutes");
    const sweepsBeforeAnAlert: Database = {
      ...everbeat.database,
      async query(text, values, use) {
        if (/raise_alert\(/.test(text)) await one.runOnce();
        return everbeat.database.query(text, values, use);
      },
    };
    const told: unknown[] = [];
    const events = new Events(() => {});
    events.onAny((name) => told.push(name));
    await alertIfStopped({ database: sweepsBeforeAnAlert, events, checkMs: settings.checkMs });
    expect(told).toEqual(["sweeps.stopped"]);
    expect(await everbeat.alerts.list({ open: true })).toEqual([]);
    expect(await database.query("select from everbeat.alert where resolved_at is not null")).toHaveLength(1);
  });

  test("that waited for its row says how long nobody had swept when it got it, not when it asked", async () => {
    const one = reaper();
    await one.runOnce();
    await sweptAgo("10 minutes");
    const turn = { id: one.id, isReplica: true, gapMs: 60_000 };
    const waited = await eventually(
      async () => {
        const blocker = await holding(database.url, "select from everbeat.listening for update");
        const swept = beginSweep(everbeat.database, turn).catch(() => undefined);
        const waiting = "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%begin_sweep%'";
        await eventually(() => database.query(waiting), { until: (rows) => rows.length > 0, within: 1_000 }).catch(
          () => {},
        );
        const [{ ms }] = (await database.query(
          "select extract(epoch from clock_timestamp() - swept_at)::float8 * 1000 as ms from everbeat.listening",
        )) as [{ ms: number }];
        await blocker.release();
        // On a slow machine its patience may have been over before that.
        const begun = await swept;
        return begun && { ms, sweptAgoMs: begun.sweptAgoMs };
      },
      { within: 60_000, what: "a sweep that waited" },
    );
    expect(waited?.sweptAgoMs).toBeGreaterThanOrEqual(waited?.ms as number);
  });
});

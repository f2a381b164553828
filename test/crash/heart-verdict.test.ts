/** Verdicts against beats that come in the same moment, and owners that never beat at all. */
import pg from "pg";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { claimTasks } from "../../src/sql/claims.ts";
import { beat, beginHeart, beginSweep } from "../../src/sql/hearts.ts";
import { registerReplica } from "../../src/sql/replicas.ts";
import { newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { eventually } from "../support/eventually.ts";
import { SCALED, startWorker, task } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 60_000 });

const promise = { intervalMs: 300, promiseMs: 2_700, sessionPromiseMs: 800 };

/** On record as any replica is, by a process that does nothing further. */
async function registered({ everbeat }: CrashDatabase): Promise<ReplicaId> {
  const id = newReplicaId();
  await registerReplica(everbeat.database, {
    ...{ id, machineId: "elsewhere", hostname: "elsewhere", pid: 1, version: "0", tasks: ["hold"] },
    ...{ queues: undefined, recovery: {}, promise },
  });
  return id;
}

describe("a beat that comes in the moment of the verdict", () => {
  test.each([
    [
      "the first on a connection",
      (database: CrashDatabase, id: ReplicaId) => beginHeart(database.everbeat.database, id, promise),
    ],
    [
      "one of many",
      (database: CrashDatabase, id: ReplicaId) =>
        beat(database.everbeat.database, id, { vitals: {}, hasSession: false, isRemembered: false }),
    ],
  ])("is refused (%s)", async (_, send) => {
    const database = await openCrashDatabase();
    const id = await registered(database);
    const listen = () =>
      beginSweep(database.everbeat.database, {
        id: newReplicaId(),
        isReplica: true,
        gapMs: 60_000,
      });
    await listen();
    expect(await send(database, id)).toBe(true);
    await listen();
    const reaper = new pg.Client(database.url);
    await reaper.connect();
    onTestFinished(() => reaper.end());
    await reaper.query("begin");
    const { rows } = await reaper.query("select everbeat.declare_dead($1, 'silent', 0, '{}') as dead", [id]);
    expect(rows).toEqual([{ dead: true }]);
    const sent = send(database, id);
    await eventually(
      async () =>
        (
          await database.query(
            "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
          )
        ).length === 1,
    );
    await reaper.query("commit");
    expect(await sent).toBe(false);
  });
});

test("a replica that was killed before its first beat is found by its silence, with what it had claimed", async () => {
  const database = await openCrashDatabase();
  const { everbeat } = database;
  const id = await everbeat.enqueue(task("hold"), {});
  const replicaId = await registered(database);
  const request = { replicaId, names: ["hold"], queues: undefined, room: undefined, run: 0, prefetch: 1, cursors: [] };
  expect((await claimTasks(everbeat.database, request)).claimed).toHaveLength(1);
  await startWorker({ url: database.url, tasks: [{ handler: "quick" }], open: { recovery: SCALED } });
  await database.untilStatus(replicaId, "dead");
  expect((await database.replica(replicaId)).death).toMatchObject({ because: "silent" });
  await eventually(async () => (await everbeat.tasks.show(id)).state === "pending");
  expect(await everbeat.tasks.show(id)).toMatchObject({ attempt: 0, failures: 0 });
});

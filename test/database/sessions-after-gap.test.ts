/** What session locks prove when nobody has swept for a while: nothing, unless the server is known to have lived through it. */
import pg from "pg";
import { expect, test, vi } from "vitest";
import type { Everbeat } from "../../src/everbeat.ts";
import { beat, beginSweep, declareDead } from "../../src/sql/hearts.ts";
import { registerReplica } from "../../src/sql/replicas.ts";
import { newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { type CrashDatabase, openCrashDatabase, openThrough } from "../support/crash-database.ts";
import { createDocumentedRole } from "../support/documented-role.ts";
import { eventually } from "../support/eventually.ts";
import { startOwnServer } from "../support/own-server.ts";

vi.setConfig({ testTimeout: 60_000 });

/** By a role that sees no sessions but its own, as on most managed servers. */
async function openAsPlainRole(database: CrashDatabase): Promise<Everbeat> {
  const { url } = await createDocumentedRole(database);
  return openThrough(url, { migrate: false });
}

/** A replica whose last beat said that it holds its lock, which nobody holds: its process is gone. */
async function scene(everbeat: Everbeat, gapMs: number) {
  const { database } = everbeat;
  const [sweeper, replicaId] = [newReplicaId(), newReplicaId()];
  await registerReplica(database, {
    ...{ id: replicaId, machineId: "m", hostname: "h", pid: 1, version: "0", tasks: ["t"], queues: undefined },
    ...{ recovery: {}, promise: { intervalMs: 2_000, promiseMs: 13_500, sessionPromiseMs: 0 } },
  });
  const beats = (id: ReplicaId) => beat(database, id, { vitals: null, hasSession: true, isRemembered: false });
  return {
    beats: () => beats(replicaId),
    sweep: () => beginSweep(database, { id: sweeper, isReplica: true, gapMs }),
    declare: () => declareDead(database, replicaId, { minMs: 0, death: { because: "session-lost" } }),
    isSeenFree: async () => (await everbeat.replicas()).find(({ id }) => id === replicaId)?.sessionFreeForMs !== null,
    hasSession: async () => (await everbeat.replicas()).find(({ id }) => id === replicaId)?.hasSession,
  };
}

const nobodySweptFor = (database: CrashDatabase, interval: string) =>
  database.query(`update everbeat.listening set swept_at = swept_at - interval '${interval}'`);

test("after a gap that the server may not have lived through, a free lock proves nothing until its heart has said again that it holds it", async () => {
  const database = await openCrashDatabase();
  const one = await scene(await openAsPlainRole(database), 60_000);
  await one.beats();
  await one.sweep();
  expect(await one.isSeenFree()).toBe(true);
  await nobodySweptFor(database, "1 hour");
  expect(await one.hasSession()).toBe(true);
  await one.sweep();
  expect(await one.hasSession()).toBe(false);
  expect(await one.isSeenFree()).toBe(false);
  await one.sweep();
  expect(await one.isSeenFree()).toBe(false);
  expect(await one.declare()).toBe(false);
  await one.beats();
  await one.sweep();
  expect(await one.isSeenFree()).toBe(true);
  await one.sweep();
  expect(await one.declare()).toBe(true);
});

test("after a gap that a session of the server's has lived through, a lock that is free is what it was", async () => {
  const database = await openCrashDatabase();
  const one = await scene(database.everbeat, 1_000);
  await one.beats();
  await one.sweep();
  await nobodySweptFor(database, "2 seconds");
  await one.sweep();
  expect(await one.isSeenFree()).toBe(true);
  expect(await one.declare()).toBe(true);
});

test("a server whose sessions were all ended by a crash is not taken for one that has lived since, though it was not started again", async () => {
  const server = await startOwnServer();
  const database = await openCrashDatabase({}, server.url);
  const hasLived = async (since: unknown) =>
    (await database.query<{ lived: boolean }>("select everbeat.has_lived_since($1) as lived", [since]))[0]?.lived;
  const facts = async () => {
    const [row] = await database.query<{ pid: number; now: Date; started: Date }>(
      "select pg_backend_pid() as pid, clock_timestamp() as now, pg_postmaster_start_time() as started",
    );
    return row;
  };
  const before = await facts();
  expect(await hasLived(before?.now)).toBe(true);
  const victim = new pg.Client(database.url);
  victim.on("error", () => {});
  await victim.connect();
  const [{ pid }] = (await victim.query("select pg_backend_pid() as pid")).rows as [{ pid: number }];
  process.kill(pid, "SIGKILL");
  const after = await eventually(() => facts().catch(() => undefined), {
    until: (row) => row !== undefined && row.pid !== before?.pid,
    within: 30_000,
    what: "the server after its crash",
  });
  expect(after?.started).toEqual(before?.started);
  expect(await hasLived(before?.now)).toBe(false);
});

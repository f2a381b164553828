/** A worker's first task does not wait for its heart: the session of the notices holds its lock until that has one of its own. */
import { describe, expect, test, vi } from "vitest";
import { type CrashDatabase, openCrashDatabase } from "../support/crash-database.ts";
import { startCuttingProxy } from "../support/cutting-proxy.ts";
import { eventually } from "../support/eventually.ts";
import { forkWorker, type Handler, startWorker, task } from "../support/worker-process.ts";

vi.setConfig({ testTimeout: 90_000 });

/** The sessions that hold the lock of this replica. */
function holders({ query }: CrashDatabase, replicaId: string): Promise<{ pid: number; name: string }[]> {
  return query(
    `select a.pid, a.application_name as name from everbeat.heart h
     join pg_locks l on l.locktype = 'advisory' and (l.classid::bigint << 32) | l.objid::bigint = h.session_key
     join pg_stat_activity a on a.pid = l.pid and a.datname = current_database()
     where h.replica_id = $1 order by a.pid`,
    [replicaId],
  );
}

/** A worker that has begun its first task, and of whose heart nothing has come through, nor will. */
async function begunUnheard(handler: Handler, options: { recovery?: object; input?: object } = {}) {
  const database = await openCrashDatabase();
  const proxy = await startCuttingProxy(database.url);
  proxy.swallowHearts(true);
  const id = await database.everbeat.enqueue(task(handler), options.input ?? {});
  const open = { recovery: options.recovery ?? {} };
  const worker = forkWorker({ url: proxy.url, open, tasks: [{ handler, onCrash: "requeue" }] });
  await worker.heard({ handler: "begun", taskId: id });
  const { replicaId } = await database.everbeat.tasks.show(id);
  if (!replicaId) throw new Error("the task has no owner");
  return { database, proxy, id, worker, replicaId, open };
}

/** Slow enough that nothing else than the session can have told, and that order is told apart from chance. */
const SLOW = {
  ...{ claimerHeartbeatInterval: 5_000, claimedStaleThreshold: 60_000, warnAfter: 30_000 },
  ...{ runnerHeartbeatInterval: 5_000, runningStaleThreshold: 60_000, checkInterval: 100, sessionGrace: 10_000 },
};

/** Sessions count as they do by default; silence does much later. */
const PATIENT = { claimedStaleThreshold: 60_000, runningStaleThreshold: 60_000, warnAfter: 30_000 };

describe("a worker that starts", () => {
  test("takes nothing before a session holds its lock and it is on record with that", async () => {
    const database = await openCrashDatabase();
    const proxy = await startCuttingProxy(database.url);
    const id = await database.everbeat.enqueue(task("quick"), {});
    const [locking, registering] = [proxy.holdBefore("pg_advisory_lock_shared("), proxy.holdBefore(".replica (id,")];
    const starting = startWorker({ url: proxy.url, tasks: [{ handler: "quick" }] });
    const lock = await locking;
    expect(proxy.asked(".replica (id,") + proxy.asked("claim_tasks(")).toBe(0);
    lock.deliver();
    const registration = await registering;
    expect(proxy.asked("claim_tasks(")).toBe(0);
    expect(await database.count("pg_locks where locktype = 'advisory' and objsubid = 1")).toBeGreaterThan(0);
    registration.deliver();
    await starting;
    await database.everbeat.result(id, { timeout: 30_000 });
  });

  test("and is killed by its first task before its heart was ever heard is dead by its session, not by silence", async () => {
    const { database, worker, id, replicaId } = await begunUnheard("die");
    await worker.exited;
    const second = await startWorker({ url: database.url, tasks: [{ handler: "die", onCrash: "requeue" }] });
    const { death, vitals } = await database.untilStatus(replicaId, "dead");
    expect(death).toMatchObject({ because: "session-lost" });
    expect(vitals).toBeNull();
    await second.heard({ handler: "begun", taskId: id, attempt: 2 });
    expect(await database.crashesOf(id)).toBe(1);
  });

  test("has its lock by its heart alone once that beats, and promises what a heart can keep", async () => {
    const database = await openCrashDatabase();
    const { replicaId } = await startWorker({ url: database.url, tasks: [{ handler: "quick" }] });
    const held = await eventually(() => holders(database, replicaId), { until: ({ length }) => length === 1 });
    expect(held).toMatchObject([{ name: "everbeat heart" }]);
    const promised = await database.query(
      "select session_promise_ms as ms from everbeat.heart where replica_id = $1 and session_epoch = epoch",
      [replicaId],
    );
    expect(promised).toEqual([{ ms: 800 }]);
  });

  test("works on without a word of its heart for as long as the session is there", async () => {
    const { database, worker, replicaId, proxy, id } = await begunUnheard("hold", { recovery: PATIENT });
    const second = await startWorker({ url: database.url, open: { recovery: PATIENT }, tasks: [{ handler: "quick" }] });
    expect(await holders(database, replicaId)).toMatchObject([{ name: "everbeat" }]);
    // Its heart has not been heard for longer than a session may be gone, and is well after all.
    const unheardFor = async () => Date.now() - Number((await database.replica(replicaId)).beat_at);
    await eventually(async () => (await unheardFor()) > 4_000, { within: 30_000 });
    proxy.swallowHearts(false);
    await worker.heard({ event: "heart.beating", replicaId });
    await eventually(
      async () => (await holders(database, replicaId)).map(({ name }) => name).join() === "everbeat heart",
    );
    worker.release();
    expect(await database.everbeat.result(id, { timeout: 20_000 })).toBe("held");
    for (const { messages } of [worker, second])
      expect(messages.filter(({ event }) => event === "replica.fenced" || event === "replica.dead")).toEqual([]);
  });
});

describe("a worker that loses that session before its heart is heard", () => {
  async function bereaved(handler: Handler, input: object = {}) {
    const begun = await begunUnheard(handler, { recovery: SLOW, input });
    const { database, replicaId, open } = begun;
    await startWorker({ url: database.url, open, tasks: [{ handler: "quick" }] });
    const [standIn] = await holders(database, replicaId);
    await database.query("select pg_terminate_backend($1)", [standIn?.pid]);
    return begun;
  }

  test("stops what others may repeat before they may act, and comes back under another id", async () => {
    const { database, worker, proxy, id, replicaId } = await bereaved("hold");
    await worker.heard({ event: "replica.fenced", replicaId, because: "session-gone" });
    proxy.swallowHearts(false);
    await worker.heard({ handler: "aborted", taskId: id, code: "CUT_OFF" });
    const { replicaId: next } = await worker.heard({ event: "replica.rejoined", before: replicaId });
    await worker.heard({ handler: "begun", taskId: id, attempt: 2 });
    expect(await database.everbeat.tasks.show(id)).toMatchObject({ replicaId: next });
    expect(await database.deaths()).toBe(0);
    expect(await database.crashesOf(id)).toBe(0);
  });

  test("ends its process where its main thread stands still, before others may act", async () => {
    const { database, worker } = await bereaved("burn", { ms: 80_000 });
    expect(await worker.exited).toMatchObject({ signal: "SIGKILL" });
    expect(await database.deaths()).toBe(0);
  });
});

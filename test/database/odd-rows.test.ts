/** One row that cannot be judged, recovered or put right is reported once and passed by, and the others are done. */
import { beforeEach, describe, expect, test } from "vitest";
import type { Database } from "../../src/database/database.ts";
import { Events } from "../../src/events.ts";
import type { ClaimedTask } from "../../src/sql/claims.ts";
import { beat } from "../../src/sql/hearts.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId, type ReplicaId, type TaskId } from "../../src/task/ids.ts";
import { retentionService } from "../../src/upkeep/retention.ts";
import { passedByUpkeep, runUpkeepInParts } from "../../src/upkeep/upkeep-in-parts.ts";
import { timeMover } from "../model/move-time.ts";
import { handClaimer, putOnRecord } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { refuse } from "../support/refusing.ts";
import { anHourLater, type Sweeper, sweeper } from "../support/sweeping.ts";
import { createUpkeep } from "../support/upkeep.ts";
import { unique } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
const NUL = "\\u0000";

beforeEach(() =>
  database.query(
    "truncate everbeat.alert, everbeat.running, everbeat.listening, everbeat.turn, everbeat.replica, everbeat.heart",
  ),
);

interface Definition {
  readonly settings?: string;
  readonly stalledAfterMs?: number;
}

/** A worker that runs so many tasks by a definition as somebody may have put it there. */
async function workerWith(count: number, { settings = "{}", stalledAfterMs }: Definition = {}) {
  const task = defineTask({ name: unique("row"), run: (_input: null) => null });
  await database.query("insert into everbeat.definition (name, settings, stalled_after_ms) values ($1, $2::json, $3)", [
    ...[task.name, settings, stalledAfterMs ?? null],
  ]);
  const ids = await everbeat.enqueueMany(task, Array(count).fill(null));
  const worker = handClaimer(everbeat.database, [task.name]);
  const claimed = await worker.claim();
  return { name: task.name, ids: ids as unknown as TaskId[], worker, claimed: claimed as readonly ClaimedTask[] };
}

const die = (replica: ReplicaId, death = "{}") =>
  database.query("update everbeat.replica set status = 'dead', died_at = now(), death = $2::json where id = $1", [
    ...[replica, death],
  ]);
const statesOf = async (ids: readonly string[]) =>
  (await Promise.all(ids.map((id) => everbeat.tasks.show(id)))).map(({ state }) => state);
const passedBy = ({ told }: Sweeper) => told.filter(({ event }) => event === "sweep.passed-by");
const alerts = async (kind: string) =>
  (await everbeat.alerts.list({ open: true })).filter((alert) => alert.kind === kind);

/** As if it were not tried only because it failed a moment ago. */
async function sweepAgain(database: Database) {
  const again = sweeper(database);
  await anHourLater(database);
  await again.sweep();
  return again;
}

describe("a definition whose settings nobody understands", () => {
  const ODD = [
    '"text"',
    "null",
    "[1, 2]",
    '{"retry": null, "onCrash": 5, "crashBudget": "many", "onStall": {}, "stalledAfterMs": "soon"}',
    '{"retry": {"attempts": "x", "backoff": [], "delayMs": null, "maxDelayMs": 1e400, "jitter": 7}, "onCrash": "retry", "onStall": "retry"}',
    '{"retry": {"attempts": 5, "backoff": ["1s"], "delayMs": 1.5, "maxDelayMs": -1, "jitter": 0}, "onCrash": "retry", "onStall": "retry"}',
    `{"onCrash": "fail${NUL}", "${NUL}": 1}`,
  ];

  test.each(ODD)("%s keeps no task of a dead worker from being recovered", async (settings) => {
    const odd = await workerWith(2, { settings });
    const even = await workerWith(2, { settings: '{"onCrash": "requeue"}' });
    await die(odd.worker.replicaId);
    await die(even.worker.replicaId);
    const reaper = sweeper(everbeat.database);
    await anHourLater(everbeat.database);
    await reaper.sweep();
    expect(reaper.errors).toEqual([]);
    expect(await statesOf(even.ids)).toEqual(["pending", "pending"]);
    expect(await statesOf(odd.ids)).not.toContain("running");
  });

  test.each(ODD)("%s keeps no stall from being ended", async (settings) => {
    const odd = await workerWith(1, { settings, stalledAfterMs: 1_000 });
    const even = await workerWith(1, { settings: '{"onStall": "fail"}', stalledAfterMs: 1_000 });
    await anHourLater(everbeat.database);
    const reaper = sweeper(everbeat.database);
    await reaper.sweep();
    expect(reaper.errors).toEqual([]);
    expect(await statesOf(even.ids)).toEqual(["failed"]);
    expect(reaper.told.filter(({ event }) => event === "task.stalled")).toHaveLength(2);
    expect(await everbeat.recovery.explain(odd.ids[0] ?? "")).toHaveProperty("because");
  });

  test.each(ODD)("%s is in nobody's way who enqueues by its name in SQL", async (settings) => {
    const { name } = await workerWith(0, { settings });
    expect(await database.query("select everbeat.enqueue($1)", [name])).toHaveLength(1);
  });
});

describe("a death on record that nobody understands", () => {
  test.each([
    '"gone"',
    "[]",
    "17",
    `{"because": "${NUL}", "silentForMs": "long", "vitals": 4, "signal": {}, "exitCode": "one"}`,
    '{"because": 4, "silentForMs": 1e400, "wasDraining": "yes", "runner": {}, "stack": 3}',
  ])("%s is asked about like the others, and its tasks are recovered", async (death) => {
    const odd = await workerWith(2);
    const even = await workerWith(2);
    await die(odd.worker.replicaId, death);
    await die(even.worker.replicaId, '{"because": "session-lost", "silentForMs": 1000}');
    const reaper = sweeper(everbeat.database);
    await anHourLater(everbeat.database);
    await reaper.sweep();
    expect(reaper.errors).toEqual([]);
    expect(reaper.told.filter(({ event }) => event === "post-mortem.failed")).toEqual([]);
    expect(await statesOf([...odd.ids, ...even.ids])).toEqual(["failed", "failed", "failed", "failed"]);
    for (const { worker } of [odd, even])
      expect(await everbeat.recovery.postMortems({ of: worker.replicaId, kind: "replica" })).toHaveLength(1);
  });
});

describe("a task whose end cannot be written", () => {
  test("is passed by when its worker has died, told of once, and recovered when it can be", async () => {
    const { ids, worker } = await workerWith(7);
    const { allow } = await refuse(database, "ended", `new.task_id = '${ids[3]}'`);
    await die(worker.replicaId);
    const reaper = sweeper(everbeat.database);
    await anHourLater(everbeat.database);
    await reaper.sweep();
    await reaper.sweep();
    expect(await statesOf(ids)).toEqual(ids.map((_, nth) => (nth === 3 ? "running" : "failed")));
    expect(passedBy(reaper)).toMatchObject([{ what: expect.stringContaining(ids[3] ?? ""), error: { code: "P0001" } }]);
    expect(await alerts("sweep-passed-by")).toHaveLength(1);
    const other = await sweepAgain(everbeat.database);
    expect(passedBy(other)).toEqual([]);
    await allow();
    await sweepAgain(everbeat.database);
    expect(await statesOf(ids)).toEqual(ids.map(() => "failed"));
    expect(await alerts("sweep-passed-by")).toEqual([]);
  });

  test("is passed by when it has stalled", async () => {
    const { ids } = await workerWith(5, { settings: '{"onStall": "fail"}', stalledAfterMs: 1_000 });
    await refuse(database, "ended", `new.task_id = '${ids[0]}'`);
    const looks = counting("find_stalled(");
    const reaper = sweeper(looks.database);
    // Not every sweep looks for stalls, and a sweep that does not look says nothing about them.
    const sweepOn = async () => {
      await anHourLater(everbeat.database);
      await reaper.sweep();
      return looks.count() >= 3;
    };
    await eventually(sweepOn, { every: 100, what: "a third look for stalls" });
    expect(await statesOf(ids)).toEqual(["running", "failed", "failed", "failed", "failed"]);
    expect(passedBy(reaper)).toMatchObject([{ what: expect.stringContaining(ids[0] ?? "") }]);
    expect(await database.query("select resolved_at from everbeat.alert where kind = 'sweep-passed-by'")).toEqual([
      { resolved_at: null },
    ]);
  });

  test("keeps its alert when the part of the sweep that met it fails as a whole", async () => {
    const { ids, worker } = await workerWith(2);
    await refuse(database, "ended", `new.task_id = '${ids[0]}'`);
    await die(worker.replicaId);
    const words = { failing: "" };
    const reaper = sweeper(failingAt(() => words.failing, Object.assign(new Error("denied"), { code: "42501" })));
    for (const failing of ["", "absent_owners", ""]) {
      words.failing = failing;
      await anHourLater(everbeat.database);
      await reaper.sweep();
    }
    expect(passedBy(reaper).map(({ what }) => what)).toEqual([
      expect.stringContaining(ids[0] ?? ""),
      "recovering the tasks of the dead",
    ]);
    expect(await alerts("sweep-passed-by")).toMatchObject([{ subject: expect.stringContaining(ids[0] ?? "") }]);
  });

  test("is passed by where it was claimed and cannot be put back, and so is a whole dead worker beside others", async () => {
    const [one, other] = [await workerWith(2), await workerWith(2)];
    await refuse(database, "ready", `new.task_id = '${one.ids[1]}'`);
    await refuse(database, "crash", `new.replica_id = '${other.worker.replicaId}'`);
    await database.query("update everbeat.running set state = 'claimed' where replica_id = $1", [one.worker.replicaId]);
    const third = await workerWith(2);
    for (const { worker } of [one, other, third]) await die(worker.replicaId);
    const reaper = sweeper(everbeat.database);
    await anHourLater(everbeat.database);
    await reaper.sweep();
    expect(await statesOf([...one.ids, ...other.ids, ...third.ids])).toEqual([
      ...["pending", "claimed", "running", "running", "failed", "failed"],
    ]);
    expect(passedBy(reaper)).toHaveLength(2);
  });
});

describe("a post-mortem that cannot be written", () => {
  const examined = async (kind: string, replicas: readonly ReplicaId[]) => {
    const rows = await database.query<{ id: ReplicaId }>(
      "select replica_id as id from everbeat.post_mortem where kind = $1 and replica_id = any ($2)",
      [kind, replicas],
    );
    return replicas.filter((replica) => rows.some(({ id }) => id === replica));
  };

  test("is passed by, told of once, and written when it can be; the others are written, and those of all attempts", async () => {
    const replicas: ReplicaId[] = [];
    for (let nth = 0; nth < 3; nth++) replicas.push((await workerWith(2)).worker.replicaId);
    // The one that comes first, since the dead are examined in order.
    const [bad = "", ...others] = replicas;
    const { allow } = await refuse(database, "post_mortem", `new.kind = 'replica' and new.replica_id = '${bad}'`);
    for (const replica of replicas) await die(replica);
    const reaper = sweeper(everbeat.database);
    await anHourLater(everbeat.database);
    await reaper.sweep();
    expect(await examined("replica", replicas)).toEqual(others);
    expect(await examined("attempt", replicas)).toEqual(replicas);
    const what = expect.stringContaining(bad);
    expect(passedBy(reaper)).toMatchObject([{ what, error: { code: "P0001" } }]);
    expect(await alerts("sweep-passed-by")).toMatchObject([{ subject: what }]);
    expect(passedBy(await sweepAgain(everbeat.database))).toEqual([]);
    expect(await alerts("sweep-passed-by")).toHaveLength(1);
    await allow();
    await sweepAgain(everbeat.database);
    expect(await examined("replica", replicas)).toEqual(replicas);
    expect(await alerts("sweep-passed-by")).toEqual([]);
  });
});

describe("a stall of which no alert can be raised", () => {
  test("is passed by, and alerts are raised for the others and end when they do", async () => {
    const { ids } = await workerWith(3, { settings: '{"onStall": "alert"}', stalledAfterMs: 1_000 });
    const [bad = "", ...others] = ids;
    const { allow } = await refuse(database, "alert", `new.kind = 'task-stalled' and new.subject = '${bad}'`);
    const reaper = await sweepAgain(everbeat.database);
    const stalled = async () => (await alerts("task-stalled")).map(({ subject }) => subject).toSorted();
    expect(await stalled()).toEqual(others.toSorted());
    const events = reaper.told.filter(({ event }) => event === "task.stalled");
    expect(events.map(({ taskId }) => taskId)).toEqual(others);
    const what = expect.stringContaining(bad);
    expect(passedBy(reaper)).toMatchObject([{ what, error: { code: "P0001" } }]);
    await database.query("delete from everbeat.running where task_id = $1", [others[0]]);
    await sweepAgain(everbeat.database);
    expect(await stalled()).toEqual([others[1]]);
    await allow();
    await sweepAgain(everbeat.database);
    expect(await stalled()).toEqual([bad, others[1]].toSorted());
    expect(await alerts("sweep-passed-by")).toEqual([]);
  });
});

test("a task that a silent replica has only claimed and that cannot be given back is passed by, and the others are given back", async () => {
  const pass = await timeMover(everbeat.database);
  const task = defineTask({ name: unique("claimed"), run: (_input: null) => null });
  const ids = (await everbeat.enqueueMany(task, [null, null, null, null])) as unknown as TaskId[];
  const owner = handClaimer(everbeat.database, [task.name]);
  expect(await owner.claim({ run: 1, prefetch: 3 })).toHaveLength(4);
  const bad = ids[2] ?? "";
  const { allow } = await refuse(database, "ready", `new.task_id = '${bad}'`);
  const thresholds = { claimedStaleThreshold: "11m", runningStaleThreshold: "30m" } as const;
  const reaper = sweeper(everbeat.database, { profile: "claimed-and-running", ...thresholds });
  const heard = newReplicaId();
  const sweepOn = async () => {
    await pass(60_000);
    await putOnRecord(everbeat.database, heard, []);
    await reaper.sweep();
  };
  for (let minute = 0; minute < 13; minute++) await sweepOn();
  expect(await statesOf(ids)).toEqual(["running", "pending", "claimed", "pending"]);
  expect(passedBy(reaper)).toMatchObject([{ what: expect.stringContaining(bad), error: { code: "P0001" } }]);
  const recovered = reaper.told.filter(({ event }) => event === "task.recovered");
  expect(recovered).toMatchObject([
    { taskId: ids[1], action: "released", because: "silent", replicaId: owner.replicaId },
    { taskId: ids[3] },
  ]);
  expect(await alerts("sweep-passed-by")).toHaveLength(1);
  await allow();
  // It is left alone for a moment.
  await eventually(
    async () => {
      await sweepOn();
      return (await everbeat.tasks.show(bad)).state === "pending";
    },
    { every: 100, what: "the task to be given back" },
  );
  expect(await alerts("sweep-passed-by")).toEqual([]);
});

test("what is passed by does not stop a sweep where no alert of it can be raised", async () => {
  const { ids, worker } = await workerWith(3);
  await refuse(database, "ended", `new.task_id = '${ids[1]}'`);
  await refuse(database, "alert", "new.kind = 'sweep-passed-by'");
  await die(worker.replicaId);
  const reaper = await sweepAgain(everbeat.database);
  expect(await statesOf(ids)).toEqual(["failed", "running", "failed"]);
  expect(passedBy(reaper)).toMatchObject([{ what: expect.stringContaining(ids[1] ?? "") }]);
  expect(reaper.errors).toMatchObject([{ code: "P0001" }]);
});

test("by hand, one that cannot be failed or given back does not keep the others, and the error says what was done and what was not", async () => {
  const [running, claimed] = [await workerWith(3), await workerWith(3)];
  await database.query("update everbeat.running set state = 'claimed' where replica_id = $1", [
    claimed.worker.replicaId,
  ]);
  await refuse(database, "ended", `new.task_id = '${running.ids[1]}'`);
  await refuse(database, "ready", `new.task_id = '${claimed.ids[1]}'`);
  for (const { worker } of [running, claimed]) await die(worker.replicaId);
  const refusalOf = (ids: readonly TaskId[]) => ({
    ...{ code: "PARTLY_RECOVERED", count: 2, refused: [{ id: ids[1], error: { code: "P0001" } }] },
    ids: expect.toSatisfy((done: string[]) => `${done.toSorted()}` === `${[ids[0], ids[2]].toSorted()}`),
    message: expect.stringMatching(/2 of 3 .*not to be written/s),
  });
  await expect(everbeat.recovery.failStaleRunning()).rejects.toMatchObject(refusalOf(running.ids));
  await expect(everbeat.recovery.requeueStaleClaimed()).rejects.toMatchObject(refusalOf(claimed.ids));
  expect(await statesOf(running.ids)).toEqual(["failed", "running", "failed"]);
  expect(await statesOf(claimed.ids)).toEqual(["pending", "claimed", "pending"]);
});

test("a replica that cannot be declared dead is passed by, and the others are declared dead", async () => {
  const [one, other] = [await workerWith(1), await workerWith(1)];
  await refuse(database, "replica", `new.id = '${one.worker.replicaId}' and new.status = 'dead'`);
  const reaper = sweeper(everbeat.database, { massDeath: { share: 1, atLeast: 100 } });
  await anHourLater(everbeat.database);
  await reaper.sweep();
  await anHourLater(everbeat.database);
  await database.query(
    "update everbeat.heart set beat_at = now() - interval '1 hour', promise_ms = 100, session_promise_ms = 100, epoch = everbeat.current_epoch()",
  );
  await database.query("update everbeat.replica set started_at = now() - interval '2 hours'");
  // Somebody who is heard, so that others could have been.
  await workerWith(0);
  await handClaimer(everbeat.database, ["x"]).claim();
  await reaper.sweep();
  expect(reaper.told.filter(({ event }) => event === "replica.dead")).toMatchObject([
    { replicaId: other.worker.replicaId },
  ]);
  expect(passedBy(reaper)).toMatchObject([{ what: expect.stringContaining(one.worker.replicaId) }]);
  expect(await statesOf([...one.ids, ...other.ids])).toEqual(["running", "failed"]);
});

test("one part of a sweep that fails is told of, and the parts after it are done", async () => {
  const { ids } = await workerWith(1, { settings: '{"onStall": "fail"}', stalledAfterMs: 1_000 });
  await anHourLater(everbeat.database);
  const reaper = sweeper(failingAt("absent_owners", Object.assign(new Error("permission denied"), { code: "42501" })));
  await reaper.sweep();
  expect(await statesOf(ids)).toEqual(["failed"]);
  expect(passedBy(reaper)).toMatchObject([{ error: { code: "42501" } }]);
});

test("a connection that is lost ends the sweep: that says nothing about any row", async () => {
  const { ids, worker } = await workerWith(3);
  await die(worker.replicaId);
  await anHourLater(everbeat.database);
  const lost = failingAt("recover_claims", Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" }));
  const reaper = sweeper(lost);
  await expect(reaper.sweep()).rejects.toThrow("ECONNRESET");
  expect(passedBy(reaper)).toEqual([]);
  expect(await statesOf(ids)).toEqual(["running", "running", "running"]);
});

describe("upkeep", () => {
  function upkeep() {
    const told: { event: string; [field: string]: unknown }[] = [];
    const events = new Events((error) => {
      throw error;
    });
    events.onAny((event, fields) => told.push({ ...fields, event }));
    const parts = {
      ...{ database: everbeat.database, events, retention: { maxAgeMs: 1_000, maxCount: undefined } },
      onError(error: unknown) {
        throw error;
      },
    };
    const services = [createUpkeep(parts), retentionService(parts)];
    const run = async () => {
      for (const service of services) await service.runOnce();
    };
    return { told, run };
  }
  const overdue = async (count: number) => {
    const task = defineTask({ name: unique("expiring"), run: (_input: null) => null });
    const options = { expiresIn: "1h" } as const;
    const ids = (await everbeat.enqueueMany(task, Array(count).fill(null), { options })) as unknown as TaskId[];
    await database.query(
      "update everbeat.ready set expires_at = now() - interval '1 minute' where task_id = any ($1)",
      [ids],
    );
    return ids;
  };

  test("expires, cancels and purges what it can, and tells once of what it cannot", async () => {
    const expiring = await overdue(5);
    const cancelled = await workerWith(4);
    await everbeat.tasks.cancel(cancelled.ids, { grace: 0 });
    await database.query("update everbeat.running set cancel_force_at = now() - interval '1 minute'");
    const purged = await workerWith(4);
    for (const claim of purged.claimed) await purged.worker.complete(claim);
    await database.query("update everbeat.ended set ended_at = now() - interval '1 day' where task_id = any ($1)", [
      purged.ids,
    ]);
    await database.query("update everbeat.upkeep set purged_at = '-infinity'");
    const refusals = [
      await refuse(database, "ended", `new.task_id = '${expiring[2]}'`),
      await refuse(database, "ended", `new.task_id = '${cancelled.ids[1]}'`),
    ];
    const { told, run } = upkeep();
    await run();
    await run();
    expect(await statesOf(expiring)).toEqual(["expired", "expired", "pending", "expired", "expired"]);
    expect(await statesOf(cancelled.ids)).toEqual(["cancelled", "running", "cancelled", "cancelled"]);
    expect(await database.query("select from everbeat.task where id = any ($1)", [purged.ids])).toEqual([]);
    expect(told.filter(({ event }) => event === "upkeep.passed-by").map(({ what }) => what)).toEqual([
      expect.stringContaining(cancelled.ids[1] ?? ""),
      expect.stringContaining(expiring[2] ?? ""),
    ]);
    for (const { allow } of refusals) await allow();
    await run();
    expect(await statesOf([expiring[2] ?? "", cancelled.ids[1] ?? ""])).toEqual(["expired", "cancelled"]);
    expect(await alerts("upkeep-passed-by")).toEqual([]);
  });

  test("leaves the alerts alone where another process is at it: it has found out nothing", async () => {
    const [id] = await overdue(1);
    await refuse(database, "ended", `new.task_id = '${id}'`);
    await upkeep().run();
    expect(await alerts("upkeep-passed-by")).toHaveLength(1);
    await everbeat.database.transaction(async (other) => {
      await other.query("select pg_advisory_xact_lock(everbeat.gate_lock_id('service', 'upkeep'))");
      await upkeep().run();
    });
    expect(await alerts("upkeep-passed-by")).toHaveLength(1);
  });

  test("reaches the others where as many as it looks at cannot be done", async () => {
    await database.query("truncate everbeat.ready");
    const expiring = await overdue(4);
    const bad = expiring.slice(0, 2);
    await database.query("update everbeat.ready set expires_at = now() - interval '1 hour' where task_id = any ($1)", [
      bad,
    ]);
    await refuse(database, "ended", `new.task_id in ('${bad.join("', '")}')`);
    const onError = (error: unknown) => {
      throw error;
    };
    const { database: store } = everbeat;
    const passedBy = passedByUpkeep({ database: store, events: new Events(onError), onError });
    for (let times = 0; times < 2; times++)
      await runUpkeepInParts({ database: store, passedBy, batch: 2 }, new Error("one of them was refused"));
    expect(await statesOf(expiring)).toEqual(["pending", "pending", "expired", "expired"]);
  });

  test("expires rows that somebody has moved by hand, or whose task is gone: a batch of them keeps no others from it", async () => {
    await database.query("truncate everbeat.ready");
    const moved = await overdue(498);
    const [gone = "", isRunning = ""] = await overdue(2);
    await database.query(
      "update everbeat.ready set priority = priority + 1, expires_at = now() - interval '1 hour' where task_id <> $1",
      [gone],
    );
    await database.query("delete from everbeat.task where id = $1", [gone]);
    const owner = await workerWith(1);
    await database.query("update everbeat.running set task_id = $1 where task_id = $2", [isRunning, owner.ids[0]]);
    const good = await overdue(3);
    const { run, told } = upkeep();
    await run();
    await run();
    expect(await statesOf(good)).toEqual(["expired", "expired", "expired"]);
    expect(new Set(await statesOf(moved))).toEqual(new Set(["expired"]));
    expect(await statesOf([isRunning])).toEqual(["running"]);
    expect(await database.query("select state from everbeat.ended where task_id = $1", [gone])).toEqual([
      { state: "expired" },
    ]);
    expect(await database.query("select from everbeat.ready")).toEqual([]);
    expect(told.filter(({ event }) => event === "upkeep.passed-by")).toEqual([]);
  });

  test("goes on with its other parts where one fails as a whole", async () => {
    const expiring = await overdue(1);
    await database.query("alter function everbeat.force_cancels rename to forced");
    const { told, run } = upkeep();
    await run();
    await database.query("alter function everbeat.forced rename to force_cancels");
    expect(await statesOf(expiring)).toEqual(["expired"]);
    expect(told.filter(({ event }) => event === "upkeep.passed-by")).toHaveLength(1);
  });
});

test("what a runner said when it ended cannot keep its replica's heart from being heard", async () => {
  const { worker } = await workerWith(0);
  await worker.claim();
  const exit = { code: 1, signal: null, because: "unstarted", message: "no module a\u0000b \ud83d" };
  const runner = {
    ...({ id: crypto.randomUUID(), kind: "process", pid: 1, ageMs: 5, silentForMs: 0, status: "ended" } as const),
    ...{ vitals: null, claims: [], exit },
  };
  const sign = { vitals: null, hasSession: false, isRemembered: false, runners: [runner] };
  expect(await beat(everbeat.database, worker.replicaId, sign)).toBe(true);
  const [row] = await database.query("select exit from everbeat.runner where id = $1", [runner.id]);
  expect(row).toEqual({ exit });
});

/** Answers as ours does, but for statements with these words. */
function failingAt(words: string | (() => string), error: Error): Database {
  return {
    ...everbeat.database,
    async query(text, values, use) {
      const now = typeof words === "string" ? words : words();
      if (now && text.includes(now)) throw error;
      return everbeat.database.query(text, values, use);
    },
  };
}

/** How many statements with these words were sent. */
function counting(words: string): { database: Database; count: () => number } {
  let count = 0;
  const database: Database = {
    ...everbeat.database,
    async query(text, values, use) {
      if (text.includes(words)) count++;
      return everbeat.database.query(text, values, use);
    },
  };
  return { database, count: () => count };
}

/** Alerts that are over are resolved, also where whoever raised them is gone; one that is not known to be over stays; and nobody waits for one. */
import { randomUUID } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { HEARTS } from "../../src/alert-kinds.ts";
import { STALL_DOUBT } from "../../src/recovery/limits.ts";
import { raiseAlert } from "../../src/sql/alerts.ts";
import { beginHold, endHold } from "../../src/sql/holds.ts";
import { saveDefinitions } from "../../src/sql/replicas.ts";
import { findStalled } from "../../src/sql/stalls.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { holding } from "../support/crash-database.ts";
import { openTestEverbeat } from "../support/database.ts";
import { massDeath } from "../support/mass-death.ts";
import { refuse } from "../support/refusing.ts";
import { anHourLater, sweeper } from "../support/sweeping.ts";
import { unique } from "../support/working.ts";

const { everbeat, database } = await openTestEverbeat();
beforeEach(() => database.query("truncate everbeat.alert, everbeat.running, everbeat.listening, everbeat.turn"));

const open = async () =>
  (await everbeat.alerts.list({ open: true })).map(({ kind, subject }) => `${kind} ${subject}`).toSorted();
const sweep = () => sweeper(everbeat.database).sweep();
const sweepLater = async () => {
  await anHourLater(everbeat.database);
  await sweep();
};

/** Stalled since an hour ago, as it seems; and an alert about it where its definition says no more. */
async function stalledTask(onStall: "alert" | "fail" = "alert") {
  const task = defineTask({ name: unique("stalls"), stalledAfter: "1s", onStall, run: (_input: null) => null });
  await saveDefinitions(everbeat.database, [task.settings]);
  await everbeat.enqueue(task, null);
  const worker = handClaimer(everbeat.database, [task.name]);
  const [claimed] = await worker.claim();
  if (!claimed) throw new Error("nothing was claimed");
  return { id: claimed.taskId, worker, claimed, alert: `task-stalled ${claimed.taskId}` };
}

describe("an alert about a stalled task", () => {
  test("stays open while nobody knows whether the task gets on: nobody was heard for long enough", async () => {
    const { alert } = await stalledTask();
    await sweepLater();
    expect(await open()).toEqual([alert]);
    // As after a restart of the server, or a gap without sweeps.
    await database.query("update everbeat.listening set hearing_since = now()");
    await database.query("update everbeat.turn set taken_at = now() - interval '2 seconds'");
    await sweep();
    expect(await open()).toEqual([alert]);
    const times = await database.query("select from everbeat.alert where kind = 'task-stalled'");
    expect(times).toHaveLength(1);
  });

  test("stays open while its worker misses beats", async () => {
    const { alert, worker } = await stalledTask();
    await sweepLater();
    expect(await open()).toEqual([alert]);
    await database.query(
      "update everbeat.heart set beat_at = now() - make_interval(secs => 4 * interval_ms / 1000.0) where replica_id = $1",
      [worker.replicaId],
    );
    await database.query("update everbeat.replica set started_at = started_at - interval '1 hour'");
    expect(await findStalled(everbeat.database, STALL_DOUBT)).toEqual([]);
    await sweepLater();
    expect(await open()).toEqual([alert]);
  });

  test("is resolved by a sweep when the task has said something of itself", async () => {
    const { alert, claimed } = await stalledTask();
    await sweepLater();
    expect(await open()).toEqual([alert]);
    await anHourLater(everbeat.database);
    await database.query(
      "insert into everbeat.progress (claim_id, task_id, changed_at) values ($1, $2, now()) on conflict (claim_id) do update set changed_at = now()",
      [claimed.claimId, claimed.taskId],
    );
    await sweep();
    expect(await open()).toEqual([]);
  });
});

describe("one bad row of `alert`", () => {
  test("keeps no stalled task from being ended, and no other alert from being resolved", async () => {
    const { id } = await stalledTask("fail");
    await database.query(
      "insert into everbeat.alert (kind, subject, message, part) values ('log-dropped', 'bad', '', 'not a replica')",
    );
    await raiseAlert(everbeat.database, {
      kind: "queue-not-usable",
      subject: "none",
      message: "",
      details: { reason: "" },
    });
    await sweepLater();
    expect(await everbeat.tasks.show(id)).toMatchObject({ state: "failed", error: { code: "STALLED" } });
    const left = await open();
    expect(left).toContain("log-dropped bad");
    expect(left).not.toContain("queue-not-usable none");
    expect(left.filter((one) => one.startsWith("sweep-passed-by"))).toHaveLength(1);
  });

  test("that a trigger of a user's refuses to change is passed by", async () => {
    const { id } = await stalledTask("fail");
    for (const subject of ["bad", "good"])
      await raiseAlert(everbeat.database, { kind: "queue-not-usable", subject, message: "", details: { reason: "" } });
    const { allow } = await refuse(database, "alert", "new.subject = 'bad'");
    await sweepLater();
    expect((await everbeat.tasks.show(id)).state).toBe("failed");
    expect((await open()).filter((one) => one.startsWith("queue"))).toEqual(["queue-not-usable bad"]);
    await allow();
    await sweepLater();
    expect(await open()).toEqual([]);
  });
});

describe("the alert of a mass death", () => {
  const held = async () => {
    await beginHold(everbeat.database, { source: HEARTS, counted: "machines", keptMs: 60_000 });
    await raiseAlert(everbeat.database, massDeath());
  };

  test("is resolved by a sweep where whoever ended the hold did not come to it", async () => {
    await sweepLater();
    await held();
    await endHold(everbeat.database, HEARTS);
    await sweepLater();
    expect(await open()).toEqual([]);
  });

  test("is resolved by the next sweep where somebody had locked it", async () => {
    await sweepLater();
    await held();
    const { abandon } = await holding(database.url, "select from everbeat.alert for update");
    await sweepLater();
    expect(await open()).toEqual(["mass-death hearts"]);
    await abandon();
    await sweepLater();
    expect(await open()).toEqual([]);
  });
});

test("the alert of sweeps that had stopped is resolved by the next sweep but one where somebody had locked it", async () => {
  const reaper = sweeper(everbeat.database);
  const later = async () => {
    await anHourLater(everbeat.database);
    await reaper.sweep();
  };
  await later();
  const details = { sweptAgoMs: 600_000, sweptBy: null };
  await raiseAlert(everbeat.database, { kind: "sweeps-stopped", subject: "fleet", message: "", details });
  const { abandon } = await holding(database.url, "select from everbeat.alert for update");
  await later();
  expect(await open()).toEqual(["sweeps-stopped fleet"]);
  await abandon();
  await later();
  expect(await open()).toEqual([]);
});

describe("nobody waits for an alert that somebody has locked:", () => {
  const inTime = { timeout: 15_000 };

  test("a task is retried", inTime, async () => {
    const task = defineTask({ name: unique("bad"), run: (_input: null) => null });
    const id = await everbeat.enqueue(task, null);
    await everbeat.tasks.cancel(id);
    await database.query(
      "update everbeat.ended set state = 'failed', error_code = 'NOT_CLAIMABLE' where task_id = $1",
      [id],
    );
    const details = { task: id, queue: "default", reason: "" };
    await raiseAlert(everbeat.database, { kind: "not-claimable", subject: task.name, message: "", details });
    const { abandon } = await holding(database.url, "select from everbeat.alert for update");
    await everbeat.tasks.retry(id);
    expect((await everbeat.tasks.show(id)).state).toBe("pending");
    await abandon();
  });

  test("others are raised, though somebody has raised one and not committed", inTime, async () => {
    const [first, second] = [await stalledTask(), await stalledTask()];
    const { abandon } = await holding(
      database.url,
      `select everbeat.raise_alert('task-stalled', '${first.id}', '', '{}', '${first.claimed.claimId}')`,
    );
    await sweepLater();
    expect(await open()).toEqual([second.alert]);
    await abandon();
    await sweepLater();
    expect(await open()).toEqual([first.alert, second.alert].toSorted());
  });

  test("a queue is resumed, and the next sweep resolves the alert", inTime, async () => {
    const queue = `q-${randomUUID()}`;
    await database.query("select everbeat.pause_for_trouble($1, 'it cannot be used', 'Change it')", [queue]);
    expect(await open()).toEqual([`queue-not-usable ${queue}`]);
    const { abandon } = await holding(database.url, "select from everbeat.alert for update");
    await everbeat.queues.resume(queue);
    expect((await everbeat.queues.list()).find(({ name }) => name === queue)).toMatchObject({ isPaused: false });
    await abandon();
    await sweepLater();
    expect(await open()).toEqual([]);
  });
});

test("a queue that cannot be used keeps its alert and its reason when somebody pauses it, until it is resumed", async () => {
  const queue = `q-${randomUUID()}`;
  await database.query("select everbeat.pause_for_trouble($1, 'it cannot be used', 'Change it')", [queue]);
  await everbeat.queues.pause(queue);
  const row = async () => (await everbeat.queues.list()).find(({ name }) => name === queue);
  expect(await row()).toMatchObject({ isPaused: true, trouble: "it cannot be used" });
  expect(await open()).toEqual([`queue-not-usable ${queue}`]);
  await everbeat.queues.resume(queue);
  expect(await row()).toMatchObject({ isPaused: false, trouble: null });
  expect(await open()).toEqual([]);
});

/** A look that arms a bell waits a moment for those who have found it unarmed. Either it finds what they put in, or it is told that it is unarmed. */
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const noop = defineTask({ name: "noop", run: (_input: unknown) => null });

/** A transaction that holds the bells, as whoever rings one does until its commit. */
async function holdBells(url: string): Promise<pg.Client> {
  const holder = new pg.Client(url);
  await holder.connect();
  onTestFinished(() => holder.end());
  await holder.query("begin");
  await holder.query("select pg_advisory_xact_lock_shared(everbeat.gate_lock_id('service', 'bells'))");
  return holder;
}

test("what was put in by a transaction that began later, and found no bell armed, is found", async () => {
  const { everbeat, database } = await openTestEverbeat();
  // So that the look is still waiting when the holder commits, however slow this machine is.
  await database.query("alter function everbeat.arm_bells set lock_timeout = '1min'");
  const claimer = handClaimer(everbeat.database, ["noop"]);
  await claimer.claim();
  // The look, whose transaction begins first, has to wait for it.
  const holder = await holdBells(database.url);
  const looking = claimer.look({ queues: ["default"], room: [null], run: 10, arms: true });
  const waiting = () => database.query("select 1 from pg_stat_activity where wait_event = 'advisory'");
  await eventually(waiting, { until: (rows) => rows.length > 0 });
  const id = await everbeat.enqueue(noop, 1);
  await holder.query("commit");
  const { claimed, isUnarmed } = await looking;
  expect([claimed.map(({ taskId }) => taskId), isUnarmed]).toEqual([[id], false]);
});

test("where somebody holds the bells for long, the look goes on, takes what there is, and says that it is unarmed", async () => {
  const { everbeat, database } = await openTestEverbeat();
  const claimer = handClaimer(everbeat.database, ["noop"]);
  const holder = await holdBells(database.url);
  const id = await everbeat.enqueue(noop, 1);
  const { claimed, isUnarmed } = await claimer.look({ queues: ["default"], room: [null], run: 10, arms: true });
  expect([claimed.map(({ taskId }) => taskId), isUnarmed]).toEqual([[id], true]);
  await holder.query("rollback");
  expect(await claimer.look({ queues: ["default"], room: [null], run: 10, arms: true })).toMatchObject({
    isUnarmed: false,
  });
});

test("an idle worker whose bell cannot be armed looks again by itself long before its next poll, and is told again afterwards", async () => {
  const { everbeat, database } = await openTestEverbeat();
  const holder = await holdBells(database.url);
  await everbeat.work([noop], { handleSignals: false, pollInterval: "1m" });
  for (let n = 0; n < 5; n++) await everbeat.result(await everbeat.enqueue(noop, n), { timeout: 5_000 });
  await holder.query("rollback");
  await eventually(() => database.query("select from everbeat.bell where armed"), {
    until: (rows) => rows.length === 1,
    what: "an armed bell",
  });
  await everbeat.result(await everbeat.enqueue(noop, 5), { timeout: 5_000 });
});

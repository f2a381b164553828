/** A look that arms a bell waits for those who have found it unarmed, and must find what they put in. */
import pg from "pg";
import { expect, test } from "vitest";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });

test("what was put in by a transaction that began later, and found no bell armed, is found", async () => {
  const claimer = handClaimer(everbeat.database, ["noop"]);
  await claimer.claim();
  const caller = new pg.Client(database.url);
  await caller.connect();
  try {
    // It holds the bells, so that the look, whose transaction begins first, has to wait for it.
    await caller.query("begin");
    await caller.query("select pg_advisory_xact_lock_shared(everbeat.gate_lock_id('service', 'bells'))");
    const looking = claimer.claim({ queues: ["default"], room: [null], run: 10, arms: true });
    const waiting = () => database.query("select 1 from pg_stat_activity where wait_event = 'advisory'");
    await eventually(waiting, { until: (rows) => rows.length > 0 });
    const id = await everbeat.enqueue(noop, 1);
    await caller.query("commit");
    expect((await looking).map(({ taskId }) => taskId)).toEqual([id]);
  } finally {
    await caller.end();
  }
});

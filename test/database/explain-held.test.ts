/** A task waits for the hold of the hearts, and for no other: what another source holds is none of its business. */
import { beforeEach, expect, test } from "vitest";
import { HEARTS } from "../../src/alert-kinds.ts";
import { startClaims } from "../../src/sql/claims.ts";
import { beginHold } from "../../src/sql/holds.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { anHourLater } from "../support/sweeping.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
beforeEach(() => database.query("truncate everbeat.hold"));

/** Of an owner that is about to be declared dead. */
async function runningTask(): Promise<string> {
  const claimer = handClaimer(everbeat.database, ["noop"]);
  const id = await everbeat.enqueue(noop, 1);
  const [task] = await claimer.claim({ run: 1 });
  await startClaims(everbeat.database, [task as never]);
  await anHourLater(everbeat.database);
  await database.query(
    "update everbeat.heart set beat_at = now() - interval '50 minutes', epoch = everbeat.current_epoch() where replica_id = $1",
    [claimer.replicaId],
  );
  await database.query("update everbeat.replica set started_at = now() - interval '1 hour' where id = $1", [
    claimer.replicaId,
  ]);
  return id;
}

test("a task of a silent owner is held by the hold of the hearts alone", async () => {
  const id = await runningTask();
  await beginHold(everbeat.database, { source: "imports", counted: "owners", keptMs: 60_000 });
  expect(await everbeat.recovery.explain(id)).toMatchObject({ because: "owner-dying", advice: [] });
  await beginHold(everbeat.database, { source: HEARTS, counted: "machines", keptMs: 60_000 });
  expect(await everbeat.recovery.explain(id)).toMatchObject({
    because: "recovery-held",
    next: expect.stringMatching(/^Recovery is held, because too many machines fell silent at once/),
    advice: [{ operation: "recovery.confirm", input: { source: HEARTS } }],
  });
  // One that was left behind holds no task.
  await database.query("update everbeat.hold set renewed_at = renewed_at - interval '1 day' where source = $1", [
    HEARTS,
  ]);
  expect(await everbeat.recovery.explain(id)).toMatchObject({ because: "owner-dying" });
  await beginHold(everbeat.database, { source: HEARTS, counted: "machines", keptMs: 60_000 });
  expect(await everbeat.recovery.explain(id)).toMatchObject({ because: "recovery-held" });
  await everbeat.recovery.confirmDeaths({ source: "imports" });
  expect(await everbeat.recovery.explain(id)).toMatchObject({ because: "recovery-held" });
  await everbeat.recovery.confirmDeaths({ source: HEARTS });
  expect(await everbeat.recovery.explain(id)).toMatchObject({ because: "owner-dying" });
});

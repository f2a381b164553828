/** What is stale by hand, when the server has just come back and no reaper has listened yet. */
import { expect, test } from "vitest";
import { startClaims } from "../../src/sql/claims.ts";
import { beat, beginSweep } from "../../src/sql/hearts.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { timeMover } from "../model/move-time.ts";
import { handClaimer } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const pass = await timeMover(everbeat.database);

test.each([
  ["has not beaten yet", false],
  ["has beaten again", true],
])("a task whose owner %s is not stale for the time in which the server was away", async (_, isHeard) => {
  const claimer = handClaimer(everbeat.database, ["noop"]);
  await everbeat.enqueue(noop, 1);
  const [task] = await claimer.claim({ run: 1 });
  await startClaims(everbeat.database, [task as never]);
  await beginSweep(everbeat.database, {
    id: claimer.replicaId,
    isReplica: true,
    gapMs: 60_000,
  });
  await pass(700_000);
  expect(await everbeat.recovery.findStale({ replicaId: claimer.replicaId })).toHaveLength(1);

  // Which is all that a crash leaves of an unlogged table.
  await database.query("delete from everbeat.epoch_marker");
  if (isHeard) await beat(everbeat.database, claimer.replicaId, { vitals: {}, hasSession: false, isRemembered: false });
  expect(await everbeat.recovery.findStale({ replicaId: claimer.replicaId })).toEqual([]);
  expect(await everbeat.recovery.failStaleRunning()).toEqual({ count: 0, ids: [] });
  const replica = (await everbeat.replicas()).find(({ id }) => id === claimer.replicaId);
  expect(replica?.silentForMs).toBeLessThan(60_000);

  await beginSweep(everbeat.database, {
    id: claimer.replicaId,
    isReplica: true,
    gapMs: 60_000,
  });
  await pass(700_000);
  expect(await everbeat.recovery.findStale({ replicaId: claimer.replicaId })).toHaveLength(1);
  expect(await everbeat.recovery.failStaleRunning({ replicaId: claimer.replicaId })).toMatchObject({ count: 1 });
});

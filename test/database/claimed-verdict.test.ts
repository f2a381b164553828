/** What a silent replica has only claimed is given back before it is dead, and only if it is silent in that moment too. */
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import { Events } from "../../src/events.ts";
import { readUnstarted, releaseWhileSilent } from "../../src/sql/recover-claims.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import { timeMover } from "../model/move-time.ts";
import { handClaimer, putOnRecord } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { createReaper } from "../support/sweeping.ts";

const { everbeat, database } = await openTestEverbeat();
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const pass = await timeMover(everbeat.database);
const settings = checkRecovery(
  { profile: "claimed-and-running", claimedStaleThreshold: "11m", runningStaleThreshold: "30m" },
  new Problems(),
);

/** Claimed by one who has been silent for twelve minutes, in which others were heard all the time. */
async function silentOwner() {
  const owner = handClaimer(everbeat.database, ["noop"]);
  const other = newReplicaId();
  const reaper = createReaper({
    ...{ database: everbeat.database, settings, replica: { id: other }, isMoving: () => false },
    // On a machine that has other work it may give up waiting for the beat, and looks again at the next sweep.
    ...{ events: new Events(() => {}), onError: () => {} },
  });
  const id = await everbeat.enqueue(noop, 1);
  expect(await owner.claim({ run: 0, prefetch: 1 })).toHaveLength(1);
  for (let minute = 0; minute < 12; minute++) {
    await putOnRecord(everbeat.database, other, []);
    await reaper.runOnce();
    await pass(60_000);
  }
  await putOnRecord(everbeat.database, other, []);
  expect(await everbeat.tasks.show(id)).toMatchObject({ state: "claimed" });
  return { owner, reaper, id };
}

test("a replica that is silent for too long loses what it has not started, and lives", async () => {
  const { owner, reaper, id } = await silentOwner();
  await reaper.runOnce();
  expect(await everbeat.tasks.show(id)).toMatchObject({ state: "pending", attempt: 0 });
  expect((await everbeat.replicas()).find((row) => row.id === owner.replicaId)).toMatchObject({ status: "online" });
  await everbeat.tasks.cancel(id);
});

test("a beat that comes between the look and the verdict saves what it has claimed", async () => {
  const { owner, reaper, id } = await silentOwner();
  const heart = new pg.Client(database.url);
  await heart.connect();
  onTestFinished(() => heart.end());
  await heart.query("begin");
  await heart.query("select everbeat.beat($1, '{}', false, false)", [owner.replicaId]);
  let hasSwept = false;
  const sweeping = reaper.runOnce().then(() => {
    hasSwept = true;
  });
  const waiting = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
  await eventually(async () => hasSwept || (await database.query(waiting)).length === 1, { within: 20_000 });
  await heart.query("commit");
  await sweeping;
  expect(await everbeat.tasks.show(id)).toMatchObject({ state: "claimed" });
});

test("what is claimed under an id without a heart is not given back on account of a silence", async () => {
  const { owner, id } = await silentOwner();
  await database.query("delete from everbeat.heart where replica_id = $1", [owner.replicaId]);
  const claims = await readUnstarted(everbeat.database, owner.replicaId);
  expect(await releaseWhileSilent(everbeat.database, { replicaId: owner.replicaId, minMs: 1 }, claims)).toEqual({
    done: [],
    locked: [],
  });
  expect(await everbeat.tasks.show(id)).toMatchObject({ state: "claimed" });
  await everbeat.tasks.cancel(id);
});

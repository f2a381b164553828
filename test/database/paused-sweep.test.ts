/** A process, or a whole machine, that is paused in the middle of a sweep: the time in which nobody listened proves nothing. */
import { expect, test } from "vitest";
import { beginSweep, declareDead, readDoubtfulHearts } from "../../src/sql/hearts.ts";
import { readUnstarted, releaseWhileSilent } from "../../src/sql/recover-claims.ts";
import { defineTask } from "../../src/task/define-task.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import { timeMover } from "../model/move-time.ts";
import { handClaimer, putOnRecord } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const store = everbeat.database;
const pass = await timeMover(store);
const noop = defineTask({ name: "noop", run: (_input: unknown) => null });
const sweeper = newReplicaId();
const TOO_LONG_MS = 15_000;

/** Heard just now, and so is whoever sweeps. */
async function beginSweepOver() {
  await everbeat.enqueue(noop, 1);
  const owner = handClaimer(store, ["noop"]);
  expect(await owner.claim({ run: 0, prefetch: 1 })).toHaveLength(1);
  const sweep = async () => {
    await putOnRecord(store, sweeper, []);
    await beginSweep(store, { id: sweeper, isReplica: true, gapMs: 120_000 });
  };
  await sweep();
  const { replicaId } = owner;
  const doubtful = async () =>
    (await readDoubtfulHearts(store, { silentFromMs: TOO_LONG_MS, doSessionsCount: true })).map(
      (heart) => heart.replicaId,
    );
  const declare = (because: "silent" | "session-lost") =>
    declareDead(store, replicaId, { minMs: TOO_LONG_MS, death: { because } });
  const release = async () => {
    const claims = await readUnstarted(store, replicaId);
    expect(claims).toHaveLength(1);
    return (await releaseWhileSilent(store, { replicaId, minMs: TOO_LONG_MS }, claims)).done;
  };
  return { replicaId, sweep, doubtful, declare, release };
}

test("nobody is silent for it, as long as nobody has listened since", async () => {
  const { replicaId, sweep, doubtful, declare, release } = await beginSweepOver();
  await pass(60_000);
  expect(await doubtful()).toEqual([]);
  expect(await release()).toEqual([]);
  expect(await declare("silent")).toBe(false);
  // Had others listened meanwhile, it would have been.
  await sweep();
  expect(await doubtful()).toEqual([replicaId]);
  expect(await release()).toHaveLength(1);
  expect(await declare("silent")).toBe(true);
});

test("a session that was seen free has not been so for longer", async () => {
  const { replicaId, sweep, declare } = await beginSweepOver();
  await database.query("update everbeat.heart set session_epoch = epoch, session_key = 1 where replica_id = $1", [
    replicaId,
  ]);
  await sweep();
  await pass(60_000);
  expect(await declare("session-lost")).toBe(false);
  await sweep();
  expect(await declare("session-lost")).toBe(true);
});

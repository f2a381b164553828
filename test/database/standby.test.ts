/** Many who could sweep, on one database: how often they ask, and who follows a sweeper that is gone. */
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Problems } from "../../src/config/problems.ts";
import { checkRecovery } from "../../src/config/recovery-options.ts";
import type { Database } from "../../src/database/database.ts";
import { Events } from "../../src/events.ts";
import type { Everbeat } from "../../src/everbeat.ts";
import { heartPlanOf } from "../../src/heart/heart-plan.ts";
import { sweepPatienceMs } from "../../src/recovery/sweeping.ts";
import { registerReplica } from "../../src/sql/replicas.ts";
import { type TurnAnswer, takeTurns } from "../../src/sql/turns.ts";
import { newReplicaId, type ReplicaId } from "../../src/task/ids.ts";
import { openTestEverbeat, type TestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { createReaper } from "../support/sweeping.ts";

const CHECK_MS = 100;
const settings = checkRecovery({ checkInterval: CHECK_MS }, new Problems());

let everbeat: Everbeat;
let database: TestDatabase;
let running: Reaper[] = [];
beforeAll(async () => {
  ({ everbeat, database } = await openTestEverbeat());
});
beforeEach(() =>
  database.query("truncate everbeat.listening, everbeat.turn, everbeat.replica, everbeat.heart, everbeat.machine"),
);
afterEach(async () => {
  await Promise.all(running.map((service) => service.stop()));
  running = [];
});

type Reaper = ReturnType<typeof createReaper>;

interface Member {
  readonly id: ReplicaId;
  readonly reaper: Reaper;
}

/** Replicas on record whose reapers are real. Their hearts do not beat, and no test lasts so long that this would matter. */
async function fleet(size: number): Promise<{ members: Member[]; tally: { asked: number; swept: number } }> {
  const tally = { asked: 0, swept: 0 };
  const counting: Database = {
    ...everbeat.database,
    async query<Row>(text: string, values?: readonly unknown[], use?: "often") {
      const rows = await everbeat.database.query<Row>(text, values, use);
      if (!text.includes("take_turns(")) return rows;
      tally.asked++;
      if ((rows as TurnAnswer[]).some(({ service, isOurs }) => service === "sweep" && isOurs)) tally.swept++;
      return rows;
    },
  };
  const members: Member[] = [];
  for (let n = 0; n < size; n++) {
    const id = newReplicaId();
    await registerReplica(everbeat.database, {
      ...{ id, machineId: `machine ${n}`, hostname: "a", pid: 1, version: "0", tasks: ["t"], queues: undefined },
      ...{ recovery: settings, promise: heartPlanOf(settings).promise },
    });
    const onError = () => {};
    const events = new Events(onError);
    const parts = { database: counting, events, settings, replica: { id }, onError, isMoving: () => false };
    members.push({ id, reaper: createReaper(parts) });
  }
  running = members.map(({ reaper }) => reaper);
  for (const { reaper } of members) reaper.start();
  return { members, tally };
}

const sweptBy = async () => (await everbeat.recovery.listening())?.sweptBy;

/** The longest that nobody swept, as seen until this is so. */
async function longestGapUntil(isSo: () => Promise<boolean>): Promise<number> {
  let longest = 0;
  const look = async () => {
    longest = Math.max(longest, (await everbeat.recovery.listening())?.sweptAgoMs ?? 0);
    return isSo();
  };
  await eventually(look, { every: 10, within: 30_000, what: "another who sweeps" });
  return longest;
}

describe("replicas that do not sweep", () => {
  test("ask so seldom that fifty of them ask fewer than twelve questions for each sweep", async () => {
    const { tally } = await fleet(50);
    // Each asks once to learn its place.
    await eventually(() => tally.asked >= 50);
    const before = { ...tally };
    await eventually(() => tally.swept - before.swept >= 20, { within: 60_000, what: "twenty sweeps" });
    // One is the sweeper's own. Without a line it would be 50.
    expect((tally.asked - before.asked) / (tally.swept - before.swept)).toBeLessThan(12);
  });

  test.each([2, 3, 50])(
    "take over when the one of %i that swept is gone, in the time that a sweep may be late",
    async (size) => {
      const { members } = await fleet(size);
      const first = await eventually(sweptBy);
      await members.find(({ id }) => id === first)?.reaper.stop();
      const gapMs = await longestGapUntil(async () => (await sweptBy()) !== first);
      expect(gapMs).toBeLessThan(sweepPatienceMs(CHECK_MS));
    },
  );

  test("take over when all who stood before them are gone with the sweeper", async () => {
    const { members } = await fleet(20);
    await eventually(sweptBy);
    const [last, ...others] = members.toReversed() as [Member, ...Member[]];
    await Promise.all(others.map(({ reaper }) => reaper.stop()));
    const gapMs = await longestGapUntil(async () => (await sweptBy()) === last.id);
    expect(gapMs).toBeLessThan(1.5 * sweepPatienceMs(CHECK_MS));
  });
});

test("a place in line is counted in a ring of those who are alive, from behind whoever swept last", async () => {
  const { members } = await fleet(5);
  await Promise.all(members.map(({ reaper }) => reaper.stop()));
  const ids = members.map(({ id }) => id).toSorted();
  await database.query("update everbeat.replica set status = 'offline' where id = $1", [ids[1]]);
  const ask = async (id: ReplicaId, fromMs: number, isReplica = true) => {
    const taker = { id, host: "a", isReplica, places: 3, holdMs: 5_000 };
    const wanted = [{ service: "sweep", everyMs: 60_000, fromMs, isHeld: false }];
    return (await takeTurns(everbeat.database, taker, wanted, { running: [], ended: [] }))[0];
  };
  expect(await ask(ids[3] as ReplicaId, 0)).toMatchObject({ isOurs: true, place: null });
  const placeOf = async (id: ReplicaId, isReplica = true) => {
    const answer = await ask(id, 60_000, isReplica);
    expect(answer?.isOurs).toBe(false);
    return answer?.place;
  };
  expect(await placeOf(ids[4] as ReplicaId)).toBe(1);
  expect(await placeOf(ids[0] as ReplicaId)).toBe(2);
  expect(await placeOf(ids[2] as ReplicaId)).toBe(3);
  // One that listens and is no replica stands behind all of them.
  expect(await placeOf(newReplicaId(), false)).toBe(3);
});

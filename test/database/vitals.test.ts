/** What a beat says of its process is written as a few whole numbers of one width, and read as it was said. */
import { expect, test } from "vitest";
import type { Vitals } from "../../src/heart/vitals.ts";
import { beat, beginHeart } from "../../src/sql/hearts.ts";
import { newReplicaId } from "../../src/task/ids.ts";
import { putOnRecord } from "../support/claims.ts";
import { openTestEverbeat } from "../support/database.ts";

const { everbeat, database } = await openTestEverbeat();
const MB = 1024 ** 2;
const CALM: Vitals = {
  ...{
    memoryLimit: 24 * 1024 * MB,
    groupLimit: 512 * MB,
    groupUsed: 300 * MB,
    inHand: 1_000,
    rss: 96 * MB + 4_096,
    heapUsed: 12 * MB,
  },
  ...{ loopP50Ms: 20.1, loopP99Ms: 32, loopMaxMs: 43.6, blockedForMs: 90, cpu: 0.05 },
};

test("vitals are read as they were said", async () => {
  expect((await vitalsAfter(CALM)).vitals).toEqual(CALM);
});

test("whoever stood still for a month, or has more memory than numbers, is heard all the same", async () => {
  const month = 30 * 24 * 3_600_000;
  const huge = { ...CALM, memoryLimit: 2 ** 60, loopMaxMs: month, blockedForMs: month };
  const { heard, vitals } = await vitalsAfter(huge);
  expect(heard).toBe(true);
  expect(vitals).toEqual({
    ...huge,
    memoryLimit: (2 ** 31 - 1) * 4_096,
    loopMaxMs: (2 ** 31 - 1) / 10,
    blockedForMs: 2 ** 31 - 1,
  });
});

test("what is not known stays unknown, and the rest is written", async () => {
  const { heard, vitals } = await vitalsAfter({ ...CALM, loopP99Ms: Number.NaN });
  expect({ heard, vitals }).toEqual({ heard: true, vitals: { ...CALM, loopP99Ms: null } });
});

test("a beat takes no more room than the one before, whatever it says", async () => {
  const sizes = [
    CALM,
    { ...CALM, rss: 0, cpu: 64, loopMaxMs: 0 },
    { ...CALM, inHand: 0, groupLimit: 0, groupUsed: 0, loopP99Ms: 123_456 },
  ];
  const rows = [];
  for (const vitals of sizes) rows.push((await vitalsAfter(vitals)).bytes);
  expect(new Set(rows).size).toBe(1);
});

async function vitalsAfter(vitals: Vitals): Promise<{ heard: boolean; vitals: unknown; bytes: number }> {
  const id = newReplicaId();
  await putOnRecord(everbeat.database, id, []);
  await beginHeart(everbeat.database, id, { intervalMs: 2_000, promiseMs: 10_000, sessionPromiseMs: 800 });
  const heard = await beat(everbeat.database, id, { vitals, hasSession: true, isRemembered: true });
  const [row] = await database.query<{ vitals: unknown; remembered: unknown; bytes: number }>(
    `select everbeat.vitals_of(h.signs) as vitals, everbeat.vitals_of(b.signs) as remembered, pg_column_size(h.*) as bytes
     from everbeat.heart h join everbeat.beat_history b using (replica_id) where replica_id = $1`,
    [id],
  );
  expect(row?.remembered).toEqual(row?.vitals);
  return { heard, vitals: row?.vitals, bytes: row?.bytes ?? 0 };
}

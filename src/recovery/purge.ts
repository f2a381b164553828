/** Removes what has been on record for long enough. */
import type { Database } from "../database/database.ts";
import { PURGE_RULES, type PurgeAges, purge } from "../sql/purge.ts";
import type { PassedBy } from "./passed-by.ts";

const BATCH = 1_000;

/** One rule that fails does not keep the others from being followed. False: there is more to remove. */
export async function purgeRecord(database: Database, ages: PurgeAges, passedBy: PassedBy): Promise<boolean> {
  let isDone = true;
  for (const rule of PURGE_RULES) {
    const removed = await passedBy.attempt(`removing old ${rule.what}`, () =>
      database.transaction((tx) => purge(tx, rule, ages, BATCH)),
    );
    if ((removed ?? 0) >= BATCH) isDone = false;
  }
  await passedBy.settle();
  return isDone;
}

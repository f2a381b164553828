/** Removes what has been on record for long enough. */
import type { Database } from "../database/database.ts";
import { isHeldUp, isTransient } from "../database/transient.ts";
import { PURGE_RULES, type PurgeAges, purge } from "../sql/purge.ts";

const BATCH = 1_000;

/** One rule that fails does not keep the others from being followed. False: there is more to remove. */
export async function purgeRecord(
  database: Database,
  ages: PurgeAges,
  onError: (error: unknown) => void,
): Promise<boolean> {
  let isDone = true;
  for (const rule of PURGE_RULES) {
    try {
      if ((await purge(database, rule, ages, BATCH)) >= BATCH) isDone = false;
    } catch (error) {
      if (isTransient(error) && !isHeldUp(error)) throw error;
      onError(error);
    }
  }
  return isDone;
}

/**
 * Removes ended tasks where one of a batch is refused, by a foreign key or a trigger of a user's own: in halves, until the refused tasks are alone.
 * Each of them is told of and left out for a while. The database keeps for how long, so that all replicas leave it out, and the next
 * purge is one statement again (see not_purged).
 */
import type { Database } from "../database/database.ts";
import { inHalves } from "../database/in-halves.ts";
import { isAboutSomeRows } from "../database/transient.ts";
import type { PassedBy } from "../recovery/passed-by.ts";
import { findTasksToPurge, type OldTask, purgeTasks, type Retention, restFromPurge } from "../sql/upkeep.ts";

/**
 * After this long nothing more is tried, so that the rest of the upkeep is not put off: a whole table may be locked, and each try waits for that. Those
 * that were found by then rest, and the next purge goes on behind them. One locked task of a batch is found in less.
 */
const ENOUGH_MS = 6_000;

/** Returns how many left. */
export async function purgeWithoutRefused(
  parts: { database: Database; retention: Retention; passedBy: PassedBy },
  batch: number,
): Promise<number> {
  const { database, retention, passedBy } = parts;
  const passBy = async ({ taskId }: OldTask, error: unknown): Promise<number[]> => {
    const what = `removing the ended task ${taskId}`;
    await passedBy.tellOf(what, error, () => restFromPurge(database, taskId, what));
    return [];
  };
  const untilMs = performance.now() + ENOUGH_MS;
  const remove = async (some: readonly OldTask[]) => {
    if (performance.now() > untilMs) throw new Error("It took too long, and the rest was left.");
    return [await purgeTasks(database, some)];
  };
  const found = await findTasksToPurge(database, retention, batch);
  const done = await inHalves(found, remove, passBy, isAboutSomeRows);
  return done.reduce((sum, count) => sum + count, 0);
}

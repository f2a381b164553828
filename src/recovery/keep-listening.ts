/** A sweep that takes long still listens: without a word of it, the next one would take the time in between for a gap, and count no silence. */
import type { Database } from "../database/database.ts";
import { keepListening } from "../sql/hearts.ts";

/** It is said this often before the gap is over. */
const TIMES_IN_A_GAP = 3;

export async function whileListening<T>(
  { database, gapMs, isReplica }: { database: Database; gapMs: number; isReplica: boolean },
  sweep: () => Promise<T>,
): Promise<T> {
  // If this report cannot be written, the next sweep finds a gap.
  const timer = setInterval(
    () => void keepListening(database, { gapMs, isReplica }).catch(() => {}),
    gapMs / TIMES_IN_A_GAP,
  );
  timer.unref();
  try {
    return await sweep();
  } finally {
    clearInterval(timer);
  }
}

/** How far this machine's clock is from the database's. Only to know: nothing in Everbeat compares them. */
import { formatDuration } from "../config/duration.ts";
import type { Database } from "../database/database.ts";
import { readClock } from "../sql/clock.ts";
import { type Finding, good } from "./finding.ts";

export async function checkClock(database: Database): Promise<Finding> {
  const sentAt = Date.now();
  const theirs = await readClock(database);
  const receivedAt = Date.now();
  // Within the time that the question took, there is no telling.
  const ours = Math.min(Math.max(theirs.getTime(), sentAt), receivedAt);
  const differenceMs = ours - theirs.getTime();
  if (differenceMs === 0) return good("clock", "this machine's clock and the database's agree");
  const direction = differenceMs > 0 ? "ahead of" : "behind";
  const found = `this machine's clock is ${formatDuration(Math.abs(differenceMs))} ${direction} the database's`;
  return good("clock", `${found} (harmless: only the database's counts)`);
}

/** What is said of a hold, wherever one is shown: whose it is, and why. Pure. */
import type { Hold } from "../sql/holds.ts";

/** "recovery (hearts) is held: too many machines fell silent at once". */
export function holdWords({ source, counted, isConfirmed }: Omit<Hold, "since">, forHowLong = ""): string {
  const confirmed = isConfirmed ? "; confirmed, so the next sweep acts" : "";
  return `recovery (${source}) is held${forHowLong}: too many ${counted} fell silent at once${confirmed}`;
}

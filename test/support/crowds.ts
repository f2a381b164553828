/** What `crowd_of` counts in the database, for tests without one. test/database/crowds.test.ts compares the two. */
import { type CrashRecord, type Crowd, presencesOf } from "../../src/recovery/suspicion.ts";

export function crowdOf(tasks: readonly CrashRecord[]): Crowd {
  const earlier = tasks.map(presencesOf);
  const most = Math.max(0, ...earlier);
  return { suspects: tasks.length, most, withMost: earlier.filter((count) => count === most).length };
}

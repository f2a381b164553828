/** The reckoning: what was accepted against what the database's record says became of it. */
import type { Everbeat } from "../../everbeat.ts";
import type { TaskId } from "../../task/ids.ts";

export interface RecordCheck {
  readonly accepted: number;
  readonly completed: number;
  /** Accepted, and not ended. */
  readonly lost: number;
  /** Tasks with more than one completion among their attempts. */
  readonly endedTwice: number;
  readonly lateRefused: number;
  /** The database holds no task besides those that were accepted. */
  readonly strangers: number;
}

const AT_ONCE = 10;

export async function checkRecord(everbeat: Everbeat, accepted: readonly TaskId[]): Promise<RecordCheck> {
  let completed = 0;
  let lost = 0;
  let endedTwice = 0;
  let lateRefused = 0;
  for (let from = 0; from < accepted.length; from += AT_ONCE) {
    const tasks = await Promise.all(accepted.slice(from, from + AT_ONCE).map((id) => everbeat.tasks.show(id)));
    for (const task of tasks) {
      const completions = task.attempts.filter((attempt) => attempt.outcome === "completed").length;
      if (task.state === "completed") completed++;
      if (task.endedAt === null) lost++;
      if (completions > 1) endedTwice++;
      lateRefused += task.late.length;
    }
  }
  const counts = await everbeat.tasks.counts();
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  return { accepted: accepted.length, completed, lost, endedTwice, lateRefused, strangers: total - accepted.length };
}

/** Everything that was accepted completed exactly once, and nothing else happened. */
export function isFlawless(record: RecordCheck): boolean {
  const { accepted, completed, lost, endedTwice, strangers } = record;
  return completed === accepted && lost === 0 && endedTwice === 0 && strangers === 0;
}

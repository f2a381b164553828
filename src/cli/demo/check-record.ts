/** The reckoning: what was accepted against what the database's record says became of it. */
import type { Everbeat } from "../../everbeat.ts";
import type { TaskId } from "../../task/ids.ts";

export interface RecordCheck {
  readonly accepted: number;
  readonly completed: number;
  /** Not tried again, because they kill their workers. */
  readonly quarantined: number;
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
  let quarantined = 0;
  let lost = 0;
  let endedTwice = 0;
  let lateRefused = 0;
  for (let from = 0; from < accepted.length; from += AT_ONCE) {
    const tasks = await Promise.all(accepted.slice(from, from + AT_ONCE).map((id) => everbeat.tasks.show(id)));
    for (const task of tasks) {
      const completions = task.attempts.filter((attempt) => attempt.outcome === "completed").length;
      if (task.state === "completed") completed++;
      if (task.error?.code === "POISONED") quarantined++;
      if (task.endedAt === null) lost++;
      if (completions > 1) endedTwice++;
      lateRefused += task.late.length;
    }
  }
  const counts = await everbeat.tasks.counts();
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const strangers = total - accepted.length;
  return { accepted: accepted.length, completed, quarantined, lost, endedTwice, lateRefused, strangers };
}

/** Everything that was accepted completed exactly once, save what deserved its quarantine, and nothing else happened. */
export function isFlawless(record: RecordCheck, poisonous: number): boolean {
  const { accepted, completed, quarantined, lost, endedTwice, strangers } = record;
  return (
    completed + quarantined === accepted &&
    quarantined === poisonous &&
    lost === 0 &&
    endedTwice === 0 &&
    strangers === 0
  );
}

/** What a runner has run before its present job: any of it may have left something behind that brings the runner down. Pure. */
import type { TaskRef } from "../events.ts";
import type { TaskId } from "../task/ids.ts";

export interface RanBefore {
  /** How many tasks. */
  readonly count: number;
  /** The last of them, the latest first: for people. */
  readonly last: readonly TaskRef[];
  /** Those that may run again, and then may do the same to another runner. The latest first, each once. */
  readonly again: readonly TaskId[];
}

export const NOTHING_BEFORE: RanBefore = { count: 0, last: [], again: [] };

const MOST_NAMED = 100;
/** As many as a runner usually runs before it is recycled. */
const MOST_AGAIN = 1_000;

export function withJob(
  { count, last, again }: RanBefore,
  job: readonly TaskRef[],
  outcomes: readonly unknown[],
): RanBefore {
  const unfinished = job.filter((_, index) => !isResult(outcomes[index])).map(({ taskId }) => taskId);
  return {
    count: count + job.length,
    last: [...job, ...last].slice(0, MOST_NAMED),
    again: [...new Set([...unfinished, ...again])].slice(0, MOST_AGAIN),
  };
}

/** An outcome that has not come is undefined. */
function isResult(outcome: unknown): boolean {
  return outcome !== undefined && !(outcome instanceof Error);
}

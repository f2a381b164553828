/** What a runner has run before its present job: any of it may have left something behind that brings the runner down. */
import type { TaskRef } from "../events.ts";

export interface RanBefore {
  /** How many tasks. */
  readonly count: number;
  /** The last of them, the latest first. */
  readonly last: readonly TaskRef[];
}

export const NOTHING_BEFORE: RanBefore = { count: 0, last: [] };

const MOST_NAMED = 100;

export function withJob({ count, last }: RanBefore, job: readonly TaskRef[]): RanBefore {
  return { count: count + job.length, last: [...job, ...last].slice(0, MOST_NAMED) };
}

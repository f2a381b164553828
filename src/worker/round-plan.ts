/** How much a round carries, and when the next may begin. Pure. */

/**
 * A round has a cost of its own: about that of twenty to forty tasks, here and in the database. Two at a time pay where each
 * carries several times as much. With fewer slots, one round for all of them is as quick and takes less of both.
 */
const WORTH_A_SECOND = 200;
/** However long rounds take: nobody notices this. */
const LONGEST_PAUSE_MS = 5;
/** Timers know no less. */
const SHORTEST_PAUSE_MS = 1;

/** For how many tasks a round asks. Half of the slots: while the database works on one half, this process works on the other. */
export function largestRound(concurrency: number): number {
  const half = Math.ceil(concurrency / 2);
  return half >= WORTH_A_SECOND ? half : concurrency;
}

/** How much there must be to do for a second round beside the first; less than that goes with the next. */
export function secondRoundFrom(concurrency: number): number {
  return Math.max(WORTH_A_SECOND, Math.ceil(concurrency / 4));
}

export interface BeforeRound {
  /** There is more to be had than there is room for: no single task is being waited for. */
  readonly hasBacklog: boolean;
  /** How many have ended and wait for the round. */
  readonly ended: number;
  /** How many the last round brought. */
  readonly brought: number;
  readonly sinceReplyMs: number;
  /** How long rounds take of late. */
  readonly usualMs: number;
}

/**
 * How long to wait until the next round, so that it does not leave on the heels of the last one with the few that have ended
 * in between: until as many have ended as that one brought, but no longer than half of a round takes. Whoever has nothing to
 * do, or has not had a reply for a while, waits for nothing.
 */
export function pauseBeforeRoundMs({ hasBacklog, ended, brought, sinceReplyMs, usualMs }: BeforeRound): number {
  if (!hasBacklog || ended >= brought) return 0;
  const pauseMs = Math.min(usualMs / 2, LONGEST_PAUSE_MS) - sinceReplyMs;
  return pauseMs < SHORTEST_PAUSE_MS ? 0 : pauseMs;
}

/** How much a round carries, and when the next may begin. Pure. */

/**
 * A round has a cost of its own: about that of twenty to forty tasks, here and in the database. Two at a time pay where each
 * carries several times as much. With fewer slots, one round for all of them is as quick and takes less of both.
 */
const WORTH_A_SECOND = 200;
/** However long rounds take: nobody notices this. */
const LONGEST_PAUSE_MS = 5;
/** How long what waits for a slot should suffice: nobody notices that either, among so many. */
const RESERVE_LASTS_MS = 30;
const RESERVE_PER_SLOT = 4;
/** More in one round makes it cheaper by little. */
const MOST_IN_HAND = 500;
/** Outcomes in one statement. */
const MOST_OUTCOMES = 1_000;
/** Characters of results in one statement. A hundred results of a megabyte each would block the event loop for seconds. */
const MOST_CHARACTERS = 8 * 1_048_576;
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

/**
 * How many tasks may wait in hand for a slot, where all may be repeated: as many as are done in a moment, so that a round
 * carries several times what there are slots for. That is worth a lot to short tasks, and nothing to those that take long, of which next
 * to none end in a moment. Whoever runs one at a time gets one at a time.
 */
export function reserveFor(concurrency: number, endPerMs: number): number {
  // There, two rounds at a time do the same.
  if (largestRound(concurrency) < concurrency) return 0;
  const most = Math.min(RESERVE_PER_SLOT * (concurrency - 1), MOST_IN_HAND - concurrency);
  return Math.floor(Math.min(most, endPerMs * RESERVE_LASTS_MS));
}

/** How many of these go into one statement, from the first on; at least one. */
export function howManyFit(
  ended: readonly { readonly outcome: { readonly resultJson?: string | undefined } }[],
): number {
  const most = Math.min(ended.length, MOST_OUTCOMES);
  let characters = 0;
  for (let count = 0; count < most; count++) {
    characters += ended[count]?.outcome.resultJson?.length ?? 0;
    if (characters > MOST_CHARACTERS) return Math.max(1, count);
  }
  return most;
}

export interface BeforeRound {
  /** There is enough in reserve to go on with while the round after is under way. */
  readonly hasReserve: boolean;
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
 * in between: until as many have ended as that one brought, but no longer than half of a round takes; or while there is enough
 * in reserve. Whoever has nothing to do, or has not had a reply for a while, waits for nothing.
 */
export function pauseBeforeRoundMs(before: BeforeRound): number {
  const { hasBacklog, hasReserve, ended, brought, sinceReplyMs, usualMs } = before;
  if (!hasBacklog || (ended >= brought && !hasReserve)) return 0;
  const longestMs = hasReserve ? RESERVE_LASTS_MS / 2 : Math.min(usualMs / 2, LONGEST_PAUSE_MS);
  const pauseMs = longestMs - sinceReplyMs;
  return pauseMs < SHORTEST_PAUSE_MS ? 0 : pauseMs;
}

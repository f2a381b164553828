/** Which of many queues are shown. A queue per tenant makes thousands, and most of them are idle. Pure. */
import type { QueueRow } from "../index.ts";
import { formatted } from "./formatted.ts";

/** It waits, runs, is paused or is limited. */
export function isBusy(queue: QueueRow): boolean {
  return isAtWork(queue) || isHeld(queue);
}

/**
 * Where all of them fit, in their order. Else those with the most to do, ordered by that: what is due, then what waits for anything else,
 * then what is in hand; idle ones only where there is room. Queues that are paused, or limited with nothing to do, have half of the lines at
 * most, unless the others need fewer. So neither kind hides the other, however many there are and however much waits in them.
 */
export function mostBusy(queues: readonly QueueRow[], limit: number): readonly QueueRow[] {
  if (queues.length <= limit) return queues;
  const ranked = [...queues].sort(byRank);
  const atWork = ranked.filter(isAtWork);
  const held = ranked.filter(isHeld);
  const linesOfHeld = Math.max(Math.floor(limit / 2), limit - atWork.length);
  const shownHeld = held.slice(0, linesOfHeld);
  const shown = [...shownHeld, ...atWork.slice(0, limit - shownHeld.length)];
  const idle = ranked.filter((queue) => !isBusy(queue)).slice(0, limit - shown.length);
  return [...shown, ...idle].sort(byRank);
}

/** "and 1,980 more: 11 paused, the others idle". Undefined where none is left out. */
export function leftOutWords(queues: readonly QueueRow[], shown: readonly QueueRow[]): string | undefined {
  const isShown = new Set(shown);
  const leftOut = queues.filter((queue) => !isShown.has(queue));
  if (leftOut.length === 0) return undefined;
  const paused = leftOut.filter((queue) => queue.isPaused).length;
  const atWork = leftOut.filter(isAtWork).length;
  const limited = leftOut.filter(isHeld).length - paused;
  const more = `and ${formatted(leftOut.length)} more`;
  const kinds = [
    ...(paused > 0 ? [`${formatted(paused)} paused`] : []),
    ...(atWork > 0 ? [`${formatted(atWork)} with something to do`] : []),
    ...(limited > 0 ? [`${formatted(limited)} limited`] : []),
  ];
  if (kinds.length === 0) return `${more}, idle`;
  const isAll = paused + atWork + limited === leftOut.length;
  return `${more}: ${[...kinds, ...(isAll ? [] : ["the others idle"])].join(", ")}`;
}

/** Workers take from it, now or soon. */
function isAtWork(queue: QueueRow): boolean {
  return !queue.isPaused && backlogOf(queue) + inHandOf(queue) > 0;
}

/** Somebody has set it up, and nothing goes on in it. */
function isHeld(queue: QueueRow): boolean {
  return queue.isPaused || (!isAtWork(queue) && (queue.concurrency !== null || queue.rateLimit !== null));
}

function byRank(a: QueueRow, b: QueueRow): number {
  const [ranks, others] = [rankOf(a), rankOf(b)];
  const differing = ranks.findIndex((rank, index) => rank !== others[index]);
  return differing < 0 ? 0 : (others[differing] ?? 0) - (ranks[differing] ?? 0);
}

function rankOf(queue: QueueRow): number[] {
  return [queue.ready, backlogOf(queue), inHandOf(queue), Number(queue.isPaused), Number(isBusy(queue))];
}

function backlogOf({ ready, delayed, parked }: QueueRow): number {
  return ready + delayed + parked;
}

function inHandOf({ claimed, running }: QueueRow): number {
  return claimed + running;
}

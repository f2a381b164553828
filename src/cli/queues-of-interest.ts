/** Which of many queues are shown. A queue per tenant makes thousands, and most of them are idle. Pure. */
import type { QueueRow } from "../sql/queues.ts";

/** It waits, runs, is paused or is limited. */
export function isBusy(queue: QueueRow): boolean {
  return (
    backlogOf(queue) + inHandOf(queue) > 0 || queue.isPaused || queue.concurrency !== null || queue.rateLimit !== null
  );
}

/**
 * Where all of them fit, in their order. Else those with the most to do, ordered by that: what is due, then what waits for anything else,
 * then what is in hand; queues with settings before the others.
 */
export function mostBusy(queues: readonly QueueRow[], limit: number): readonly QueueRow[] {
  if (queues.length <= limit) return queues;
  const ranked = queues.map((queue) => ({
    queue,
    rank: [queue.ready, backlogOf(queue), inHandOf(queue), Number(isBusy(queue))],
  }));
  ranked.sort((a, b) => {
    const differing = a.rank.findIndex((count, index) => count !== b.rank[index]);
    return differing < 0 ? 0 : (b.rank[differing] ?? 0) - (a.rank[differing] ?? 0);
  });
  return ranked.slice(0, limit).map(({ queue }) => queue);
}

/** "and 1,980 more, most of them idle". Undefined where none is left out. */
export function leftOutWords(queues: readonly QueueRow[], shown: readonly QueueRow[]): string | undefined {
  const isShown = new Set(shown);
  const leftOut = queues.filter((queue) => !isShown.has(queue));
  if (leftOut.length === 0) return undefined;
  const busy = leftOut.filter(isBusy).length;
  const idle = busy === 0 ? ", idle" : 2 * busy < leftOut.length ? ", most of them idle" : "";
  return `and ${leftOut.length.toLocaleString("en")} more${idle}`;
}

function backlogOf({ ready, delayed, parked }: QueueRow): number {
  return ready + delayed + parked;
}

function inHandOf({ claimed, running }: QueueRow): number {
  return claimed + running;
}

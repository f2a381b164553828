/**
 * How many tasks to claim ahead of free slots. Pure.
 *
 * Claiming ahead keeps short tasks from waiting for a round trip each, and keeps long ones from idle workers that could
 * have run them. So: as many as the slots will use up within a short while at the pace of late, and none where tasks are long.
 */
const AHEAD_MS = 100;
const LONG_MS = 50;
const MOST = 1_000;

export function prefetchSize(pace: { concurrency: number; averageMs: number | undefined }): number {
  if (pace.averageMs === undefined || pace.averageMs > LONG_MS) return 0;
  return Math.min(MOST, Math.ceil((pace.concurrency * AHEAD_MS) / Math.max(pace.averageMs, 1)));
}

/** A running average that forgets: each new value weighs one part in ten. */
export function averaged(before: number | undefined, value: number): number {
  return before === undefined ? value : before * 0.9 + value * 0.1;
}

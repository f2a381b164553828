/** Whether anybody listens at all. The listener is listened to: sweeps that have stopped are worse than a dead worker. Pure. */

/** A sweep may meet a busy moment, and another replica may have to take over: three intervals, and never less than three seconds. */
const LEAST_PATIENCE_MS = 3_000;

export function isSweeping(listening: { readonly sweptAgoMs: number } | null | undefined, checkMs: number): boolean {
  return listening != null && listening.sweptAgoMs <= sweepPatienceMs(checkMs);
}

/** How long nobody has listened, so that nobody knows who is alive. Undefined while somebody listens, and where nobody ever has. */
export function unheardForMs(
  listening: { readonly sweptAgoMs: number } | null | undefined,
  checkMs: number,
): number | undefined {
  return listening == null || isSweeping(listening, checkMs) ? undefined : listening.sweptAgoMs;
}

export function sweepPatienceMs(checkMs: number): number {
  return Math.max(LEAST_PATIENCE_MS, 3 * checkMs);
}

/** Whether anybody listens at all. The listener is listened to: sweeps that have stopped are worse than a dead worker. Pure. */
import { patienceMs } from "../services/line.ts";

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
  return patienceMs(checkMs);
}

/** What a main thread that does not turn its loop calls for. Pure. */
export interface BlockedLoopPolicy {
  /** From here on it is noted, with the stack it is stuck in, and again each time it has lasted twice as long. */
  readonly stackAfterMs: number;
  /** How long past a task's timeout the loop must have been blocked before the process is ended for it. */
  readonly timeoutGraceMs: number;
  /** The process is ended after this long, timeouts or not; undefined: never. */
  readonly endAfterMs: number | undefined;
}

export interface Blockage {
  readonly blockedForMs: number;
  /** How long the loop has been blocked when it was last noted; undefined: not yet. */
  readonly notedAtMs: number | undefined;
  /** How long ago the earliest deadline passed, of those the main thread still has to act on; undefined: none has. */
  readonly overdueForMs: number | undefined;
}

export type BlockageAction = "wait" | "note" | "end-timed-out" | "end";

export function blockageOn(
  { blockedForMs, notedAtMs, overdueForMs }: Blockage,
  policy: BlockedLoopPolicy,
): BlockageAction {
  // Overdue and blocked, both: a short blockage in which a timeout happens to pass is none of this.
  if (overdueForMs !== undefined && Math.min(overdueForMs, blockedForMs) >= policy.timeoutGraceMs)
    return "end-timed-out";
  if (policy.endAfterMs !== undefined && blockedForMs >= policy.endAfterMs) return "end";
  const noteAtMs = notedAtMs === undefined ? policy.stackAfterMs : 2 * notedAtMs;
  return blockedForMs >= noteAtMs ? "note" : "wait";
}

/**
 * How long the loop has been blocked: since its last turn, but not since before the watcher itself was awake. A process that
 * was stopped, or a machine that was suspended, wakes with both asleep for as long.
 */
export function blockedForMs(seen: { nowMs: number; tickedAtMs: number; awakeSinceMs: number }): number {
  return Math.max(0, seen.nowMs - Math.max(seen.tickedAtMs, seen.awakeSinceMs));
}

/** How long a runner's heart has not been heard, counted only while its replica could have heard it. Pure. */
export interface RunnerListening {
  /** Since when this replica's own loop has turned without a longer pause. */
  readonly sinceMs: number;
  readonly lookedAtMs: number;
}

/** A replica whose loop was blocked, or that was stopped, has heard nobody: that says nothing about its runners. */
export function listeningOn(before: RunnerListening, nowMs: number, lookEveryMs: number): RunnerListening {
  const wasHeldUp = nowMs - before.lookedAtMs > lookEveryMs * 3;
  return { sinceMs: wasHeldUp ? nowMs : before.sinceMs, lookedAtMs: nowMs };
}

export function runnerSilenceMs(heardAtMs: number, listening: RunnerListening, nowMs: number): number {
  return nowMs - Math.max(heardAtMs, listening.sinceMs);
}

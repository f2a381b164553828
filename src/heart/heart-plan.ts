/**
 * When a heart stops its own work, and by when that is done. Pure.
 *
 *   last acknowledged beat ──── 0.8 ────▶ fenced ──── 0.9 ────▶ stopped, or ended ──── 1.0 × deadAfter ────▶ others act
 *   session seen gone ────────── 0.6 ───▶ fenced ──── 0.8 ────▶ stopped, or ended ──── 1.0 × grace ────────▶ others act
 */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { HeartPromise } from "../sql/hearts.ts";
import type { FenceAfter, FenceReason } from "./self-fencing.ts";

export interface HeartPlan {
  /** By when its work has stopped: what others go by, whatever their own settings are. */
  readonly promise: HeartPromise;
  readonly fenceAfter: FenceAfter;
  /** How long the main thread has for that once it was told; then the heart ends the process. */
  readonly stopWithinMs: Readonly<Record<FenceReason, number>>;
}

export function heartPlanOf(settings: RecoverySettings): HeartPlan {
  const deadAfterMs = Math.min(settings.claimedDeadAfterMs, settings.runningDeadAfterMs);
  const graceMs = settings.sessionGraceMs ?? deadAfterMs;
  return {
    promise: {
      intervalMs: Math.min(settings.claimerIntervalMs, settings.runnerIntervalMs),
      promiseMs: Math.floor(deadAfterMs * 0.9),
      sessionPromiseMs: Math.floor(graceMs * 0.8),
    },
    fenceAfter: { unheardMs: deadAfterMs * 0.8, sessionGoneMs: graceMs * 0.6 },
    stopWithinMs: {
      // A fenced heart closes its session too, and from then on that counts against it as well.
      unheard: Math.min(deadAfterMs * 0.1, graceMs * 0.8),
      "session-gone": Math.min(deadAfterMs * 0.1, graceMs * 0.2),
    },
  };
}

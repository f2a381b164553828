/**
 * When a heart stops its own work, and by when that is done. Pure.
 *
 *   last acknowledged beat ──── 0.8 ────▶ fenced ──── 0.9 ────▶ stopped, or ended ──── 1.0 × deadAfter ────▶ others act
 *   session seen gone ────────── 0.6 ───▶ fenced ──── 0.8 ────▶ stopped, or ended ──── 1.0 × grace ────────▶ others act
 *
 * While another session stands in for that of a heart that is still starting, the second line is a second longer.
 *
 * The clock may lag by its resolution. So the heart stops that much earlier, by at most a tenth of the threshold. What is left of the
 * resolution is added to its promise.
 */
import { beatIntervalMs, type RecoverySettings } from "../config/recovery-options.ts";
import type { HeartPromise } from "../sql/hearts.ts";
import { clockOf } from "./clock.ts";
import type { FenceAfter, FenceReason } from "./self-fencing.ts";

export interface HeartPlan {
  /** After how long a silence this process has stopped its work. Others go by this promise, whatever their own settings are. */
  readonly promise: HeartPromise;
  /** The promise that holds while another session stands in for the heart's own. */
  readonly promiseAtStart: HeartPromise;
  readonly fenceAfter: FenceAfter;
  /** A task whose claim was asked for longer ago is not begun: this process may have been paused since, and others may have the task by now. */
  readonly beginWithinMs: number;
  /** How long the main thread may take to stop its work once it was told to. After that the heart ends the process. */
  readonly stopWithinMs: Readonly<Record<FenceReason, number>>;
}

/** What a heart's thread may take to start and to connect on a crowded machine whose main thread has no time to say that all is well. */
const START_MS = 1_000;

export function heartPlanOf(
  settings: RecoverySettings,
  clock: Pick<ReturnType<typeof clockOf>, "resolutionMs"> = clockOf(process.platform),
): HeartPlan {
  const deadAfterMs = Math.min(settings.claimedDeadAfterMs, settings.runningDeadAfterMs);
  const graceMs = settings.sessionGraceMs ?? deadAfterMs;
  const { resolutionMs } = clock;
  const earlierMs = Math.min(resolutionMs, deadAfterMs / 10);
  const sessionEarlierMs = Math.min(resolutionMs, graceMs / 10);
  const promise = {
    intervalMs: beatIntervalMs(settings),
    promiseMs: Math.floor(deadAfterMs * 0.9 + resolutionMs - earlierMs),
    sessionPromiseMs: Math.floor(graceMs * 0.8 + resolutionMs - sessionEarlierMs),
  };
  const unheardMs = deadAfterMs * 0.8 - earlierMs;
  const sessionGoneMs = graceMs * 0.6 - sessionEarlierMs;
  return {
    promise,
    promiseAtStart: { ...promise, sessionPromiseMs: promise.sessionPromiseMs + START_MS },
    fenceAfter: {
      unheardMs,
      sessionGoneMs,
      standInUnseenMs: sessionGoneMs + START_MS,
    },
    // The last beat before that was about an interval earlier.
    beginWithinMs: Math.max(unheardMs - promise.intervalMs, unheardMs / 2),
    stopWithinMs: {
      // A fenced heart closes its session too, and from then on that counts against it as well.
      unheard: Math.min(deadAfterMs * 0.1, graceMs * 0.8),
      "session-gone": Math.min(deadAfterMs * 0.1, graceMs * 0.2),
    },
  };
}

/**
 * From when on a silence means something: the one place that knows the thresholds, whoever judges by them. SQL is given them as parameters. Pure.
 */
import { beatIntervalMs, type RecoverySettings, WARN_AFTER_BEATS } from "../config/recovery-options.ts";
import type { HeartPromise } from "../sql/hearts.ts";
import type { OnStall } from "./stall.ts";

/** Those by which one subject is judged. */
export interface Limits {
  /** From this silence on, a warning and nothing else; undefined: nobody is warned. */
  readonly staleFromMs: number | undefined;
  /** Beyond this silence, dead; undefined: never for silence. */
  readonly deadAfterMs: number | undefined;
  /** Once its session has been gone for longer, dead; undefined: sessions do not count. */
  readonly sessionGoneAfterMs: number | undefined;
}

/** What a task was when its owner fell silent: each has a threshold of its own. */
export type OwnedState = "claimed" | "running";

/** As a heart has it on record. Of a replica without a heart nothing is known, and it has promised nothing. */
export type PromiseOnRecord = { readonly [K in keyof HeartPromise]: HeartPromise[K] | null };

/** What lies between a heart's own promise to stop and anybody else's right to act, as a part of the threshold or of the grace. */
const MARGIN_PART = 10;
const SESSION_MARGIN_PART = 5;

/** Of a heart, by these settings, which may be others than its own: nobody acts before what the heart itself has promised, and a margin. */
export function heartLimits(heart: PromiseOnRecord, settings: RecoverySettings, state: OwnedState): Limits {
  const { sessionGraceMs } = settings;
  const deadAfterMs = state === "claimed" ? settings.claimedDeadAfterMs : settings.runningDeadAfterMs;
  return {
    staleFromMs: staleFromMs(heart.intervalMs ?? 0, settings),
    deadAfterMs: Math.max(deadAfterMs, (heart.promiseMs ?? 0) + deadAfterMs / MARGIN_PART),
    sessionGoneAfterMs:
      sessionGraceMs === undefined
        ? undefined
        : Math.max(sessionGraceMs, (heart.sessionPromiseMs ?? 0) + sessionGraceMs / SESSION_MARGIN_PART),
  };
}

/** A heart that beats more seldom than these settings say is not stale before three of its own beats are missing. */
function staleFromMs(intervalMs: number, settings: RecoverySettings): number {
  const { staleAfterMs } = settings;
  return intervalMs <= beatIntervalMs(settings) ? staleAfterMs : Math.max(staleAfterMs, WARN_AFTER_BEATS * intervalMs);
}

/** Below this silence, and with its session, every heart is fresh by these settings: nobody needs to be asked about it. */
export function doubtFromMs(settings: RecoverySettings): number {
  return Math.min(settings.staleAfterMs, settings.claimedDeadAfterMs, settings.runningDeadAfterMs);
}

/** By hand, beyond a silence that somebody has chosen: without a margin, but never before the heart has promised to have stopped. */
export function limitsByHand(
  heart: PromiseOnRecord,
  afterMs: number,
): { deadAfterMs: number; sessionGoneAfterMs: number } {
  return { deadAfterMs: Math.max(afterMs, heart.promiseMs ?? 0), sessionGoneAfterMs: heart.sessionPromiseMs ?? 0 };
}

/** Of an attempt that says nothing of itself: a warning where its definition asks for an alert only, else its end. */
export function stallLimits(definition: { stalledAfterMs: number | undefined; onStall: OnStall }): Limits {
  const { stalledAfterMs, onStall } = definition;
  const isOnlyWarned = onStall === "alert";
  return {
    staleFromMs: isOnlyWarned ? stalledAfterMs : undefined,
    deadAfterMs: isOnlyWarned ? undefined : stalledAfterMs,
    sessionGoneAfterMs: undefined,
  };
}

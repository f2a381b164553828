/**
 * From when on a silence means something: the one place that knows the thresholds, whoever judges by them. SQL is given them as parameters. Pure.
 */
import { beatIntervalMs, type RecoverySettings, WARN_AFTER_BEATS } from "../config/recovery-options.ts";
import { nextRunWithinMs } from "../services/line.ts";
import type { HeartPromise } from "../sql/hearts.ts";
import type { OnStall } from "./stall.ts";
import { sweepPatienceMs } from "./sweeping.ts";
import type { Silence } from "./verdict.ts";

/** Those by which one subject is judged. */
export interface Limits {
  /** From this silence on, a warning and nothing else; undefined: nobody is warned. */
  readonly staleFromMs: number | undefined;
  /** Beyond this silence, dead; undefined: never for silence. */
  readonly deadAfterMs: number | undefined;
  /** Once its session has been gone for longer, dead; undefined: sessions do not count. */
  readonly sessionGoneAfterMs: number | undefined;
}

/** Of whoever is never dead. */
const NO_LIMITS: Limits = { staleFromMs: undefined, deadAfterMs: undefined, sessionGoneAfterMs: undefined };

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

/**
 * By hand, beyond a silence that somebody has chosen: who is dead by both. The heart has had that time to be heard, and it has promised to have stopped
 * by now, for want of beats or because its session has ended. There is no margin between its promise and the act: whoever acts by hand has looked.
 */
export function limitsByHand(
  heart: PromiseOnRecord,
  afterMs: number,
): { readonly chosen: Limits; readonly promised: Limits } {
  return {
    chosen: { ...NO_LIMITS, deadAfterMs: afterMs },
    promised: {
      ...NO_LIMITS,
      deadAfterMs: heart.promiseMs ?? 0,
      sessionGoneAfterMs: heart.sessionPromiseMs ?? 0,
    },
  };
}

/**
 * For how long at least a session that is gone has been gone. Reapers note it; where none listens, it follows from the beats: there was none in the
 * time since, and the last one before may have been an interval earlier. A heart that is connecting anew has lost its session a moment ago.
 */
export function sessionGoneAtLeastMs(signs: Silence & Pick<PromiseOnRecord, "intervalMs">): number {
  const { silentForMs, sessionFreeForMs, intervalMs } = signs;
  return Math.max(sessionFreeForMs ?? 0, (silentForMs ?? 0) - LATEST_BEAT * (intervalMs ?? 0));
}

/** Of an attempt that says nothing of itself: a warning where its definition asks for an alert only, else its end. */
export function stallLimits(definition: { stalledAfterMs: number | undefined; onStall: OnStall }): Limits {
  const { stalledAfterMs, onStall } = definition;
  const isOnlyWarned = onStall === "alert";
  return isOnlyWarned ? { ...NO_LIMITS, staleFromMs: stalledAfterMs } : { ...NO_LIMITS, deadAfterMs: stalledAfterMs };
}

/** A heart that has missed this many of its own beats is not heard, where its silence is only reckoned with and no verdict is given. */
export const MISSED_BEATS = WARN_AFTER_BEATS;
/** A beat may come later than its interval says: after this many intervals. */
export const LATEST_BEAT = 1.5;

/**
 * Which attempts are looked at: below this part of its `stalledAfter`, the verdict on each is fresh. That of an owner that is not heard is left to the
 * verdict on its heart.
 */
export const STALL_DOUBT = { fromPart: 1, missedBeats: MISSED_BEATS } as const;

/** A worker that is silent for longer is worth a word. */
export function unheardAfterMs({ intervalMs }: Pick<PromiseOnRecord, "intervalMs">): number {
  return MISSED_BEATS * (intervalMs ?? 0);
}

/** An event loop that has not turned for this long is worth a word. */
export const BLOCKED_FROM_MS = 1_000;

/** The silence that is advised to whoever acts by hand while nobody listens. In fact nobody acts before the heart has promised to have stopped its work. */
export const UNHEARD_BY_HAND_MS = 10_000;

/** A longer pause between two sweeps is a gap in which nobody was heard. It has room for beats and sweeps that come a little late. */
export function listeningGapMs(settings: RecoverySettings): number {
  return 2.5 * Math.max(settings.checkMs, settings.runnerIntervalMs, settings.claimerIntervalMs);
}

/** A sweep by another that comes later than this is a takeover, and not only a late sweep. */
export function takeoverAfterMs({ checkMs }: Pick<RecoverySettings, "checkMs">): number {
  return 1.5 * checkMs;
}

/**
 * A hold that no sweep of its source has renewed for this long was left behind, and says nothing about the next mass death. A takeover has to fit in,
 * and a sweep that takes long. `everyMs`: how often the source is swept.
 */
export function holdKeptMs(everyMs: number): number {
  return Math.max(LEAST_HOLD_KEPT_MS, sweepPatienceMs(everyMs));
}

const LEAST_HOLD_KEPT_MS = 60_000;

/** For people: the time within which a death is known, if sweeps come in time. One sweep sees that its session is gone, and another that the grace is over. */
export function knownWithinMs(settings: RecoverySettings): {
  readonly silenceMs: number;
  readonly sessionMs: number | undefined;
} {
  const { runningDeadAfterMs, sessionGraceMs, checkMs } = settings;
  const sweepMs = nextRunWithinMs(checkMs);
  return {
    silenceMs: runningDeadAfterMs + sweepMs,
    sessionMs: sessionGraceMs === undefined ? undefined : sessionGraceMs + 2 * sweepMs,
  };
}

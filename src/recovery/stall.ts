/** What becomes of an attempt that is alive and does not get on. Pure. */
import { formatDuration } from "../config/duration.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import { afterFailure, DEFAULT_RETRY, type RetryPolicy } from "../task/retry.ts";

export interface QuietAttempt {
  /** Since its last phase or progress, or its start; counted only while signs could be written. */
  readonly quietForMs: number;
  readonly failures: number;
}

export interface StallPolicy {
  readonly stalledAfterMs: number | undefined;
  readonly onStall: "alert" | "fail" | "retry";
  readonly retry: RetryPolicy | undefined;
}

export type StallAction =
  | { readonly kind: "none" }
  | { readonly kind: "alert" }
  | { readonly kind: "fail"; readonly failures: number }
  | { readonly kind: "again"; readonly failures: number; readonly delayMs: number };

export function stallOn(attempt: QuietAttempt, policy: StallPolicy, random: number): StallAction {
  if (policy.stalledAfterMs === undefined || attempt.quietForMs <= policy.stalledAfterMs) return { kind: "none" };
  if (policy.onStall === "alert") return { kind: "alert" };
  // As a failure of the handler's own would be, but for what its code might have said of it.
  const isWorthRetrying = policy.onStall === "retry";
  const next = afterFailure({ failures: attempt.failures, isWorthRetrying, random }, policy.retry ?? DEFAULT_RETRY);
  const { failures } = next;
  return next.kind === "fail" ? { kind: "fail", failures } : { kind: "again", failures, delayMs: next.delayMs };
}

/** What an attempt last said of itself, as far as it said anything. */
export interface LastSaid {
  readonly phase: string | null;
  readonly details: unknown;
  readonly share: number | null;
  readonly note: string | null;
}

export interface StallError extends ErrorRecord {
  readonly quietForMs: number;
  readonly phase: string | null;
  readonly details: unknown;
  readonly share: number | null;
}

export function stallError(attempt: LastSaid & { quietForMs: number; stalledAfterMs: number }): StallError {
  const { quietForMs, stalledAfterMs, phase, details, share } = attempt;
  return {
    code: "STALLED",
    message: `It made no progress for ${formatDuration(quietForMs)} (stalledAfter is ${formatDuration(stalledAfterMs)}): ${saidWords(attempt)}.`,
    quietForMs: Math.round(quietForMs),
    phase,
    details,
    share,
  };
}

/** "its last phase was "download" {"platform":"cdn"}, at 50 % (page 3)". */
export function saidWords({ phase, details, share, note }: LastSaid): string {
  if (phase === null && share === null) return "it never reported a phase or progress";
  const at = share === null ? "" : `at ${Number((share * 100).toFixed(1))} %${note === null ? "" : ` (${note})`}`;
  if (phase === null) return `it was last ${at}`;
  const more = details == null ? "" : ` ${JSON.stringify(details)}`;
  return `its last phase was "${phase}"${more}${at === "" ? "" : `, ${at}`}`;
}

/** What becomes of an attempt that is alive and does not get on. Pure. */
import { formatDuration } from "../config/duration.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import { afterFailure, DEFAULT_RETRY, type RetryPolicy } from "../task/retry.ts";

export type OnStall = "alert" | "fail" | "retry";

export type AfterStall =
  | { readonly kind: "fail"; readonly failures: number }
  | { readonly kind: "again"; readonly failures: number; readonly delayMs: number };

/** If it is ended: as a failure of the handler's own would be, but for what its code might have said of it. */
export function afterStall(
  failures: number,
  { onStall, retry }: { onStall: OnStall; retry: RetryPolicy | undefined },
  random: number,
): AfterStall {
  const next = afterFailure({ failures, isWorthRetrying: onStall === "retry", random }, retry ?? DEFAULT_RETRY);
  if (next.kind === "fail") return { kind: "fail", failures: next.failures };
  return { kind: "again", failures: next.failures, delayMs: next.delayMs };
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

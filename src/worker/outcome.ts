/** What an attempt's ending means for its task. Pure: the same ending always gives the same outcome. */
import { formatDuration } from "../config/duration.ts";
import type { RunnerDeath } from "../runner/runner-death.ts";
import type { Outcome } from "../sql/outcomes.ts";
import { type ErrorRecord, examinable, toErrorRecord } from "../task/error-record.ts";
import {
  ClaimLostError,
  CompletionNotCommittedError,
  CutOffError,
  InvalidInputError,
  ResultNotStorableError,
  TaskCancelledError,
  TaskTimedOutError,
  WorkerStoppingError,
} from "../task/errors.ts";
import { afterFailure } from "../task/retry.ts";
import type { TaskSettings } from "../task/settings.ts";
import { stuckRecord } from "../task/stuck-record.ts";

export type Ending =
  | { readonly kind: "returned"; readonly resultJson: string }
  | { readonly kind: "threw"; readonly error: unknown }
  | { readonly kind: "snoozed"; readonly delayMs: number }
  /** Ignored its signal past the grace; whatever it does from now on counts for nothing. */
  | { readonly kind: "abandoned" }
  /**
   * Its runner has ended after it was told to stop: nothing of it goes on. `wasEnded`: by its worker. `stack`: where it blocked its loop,
   * if it did.
   */
  | { readonly kind: "stopped"; readonly wasEnded: boolean; readonly stack: string | undefined }
  | Crashed
  /** There was no runner for it, or its runner stopped itself in time: somebody else may have it, and nothing is charged. */
  | { readonly kind: "given-back"; readonly error: unknown };

/** Its runner ended in the middle of it. */
export interface Crashed {
  readonly kind: "crashed";
  readonly death: RunnerDeath;
}

export interface EndedAttempt {
  readonly ref: Pick<Outcome, "claim" | "task" | "replica">;
  readonly failures: number;
  readonly ending: Exclude<Ending, Crashed>;
  /** Why the handler was told to stop, if it was. */
  readonly abortReason: unknown;
  /** How long ago that was. */
  readonly stoppingForMs?: number | undefined;
  /** The handler has completed the task in a transaction of its own, which may or may not have committed. */
  readonly completedInTransaction: boolean;
  /** Told where the user's own judgement of the error, `retry.unless`, throws. */
  readonly onUnlessThrew?: ((error: unknown) => void) | undefined;
}

/** Undefined: the claim is lost, and there is nothing left to say about the task. */
export function outcomeOf(attempt: EndedAttempt, settings: TaskSettings, random: number): Outcome | undefined {
  if (!attempt.completedInTransaction) return outcomeOfEnding(attempt, settings, random);
  const outcome = saysWhyItEnded(attempt.ending) ? outcomeOfEnding(attempt, settings, random) : undefined;
  const uncommitted = () => failure(attempt, new CompletionNotCommittedError(attempt.ref.task), settings, random);
  return { ...(outcome ?? uncommitted()), confirm: true };
}

/** What a handler throws is why its transaction did not commit. A snooze is thrown too. */
function saysWhyItEnded({ kind }: Ending): boolean {
  return kind === "threw" || kind === "snoozed";
}

function outcomeOfEnding(attempt: EndedAttempt, settings: TaskSettings, random: number): Outcome | undefined {
  const { ref, ending, abortReason } = attempt;
  if (ending.kind === "returned") {
    // Name by name: a copy of `ref` takes longer than all the rest of this.
    const { claim, task, replica } = ref;
    return { claim, task, replica, to: "completed", outcome: "completed", resultJson: ending.resultJson };
  }
  if (ending.kind === "snoozed") return { ...ref, to: "pending", outcome: "snoozed", delayMs: ending.delayMs };
  if (ending.kind === "given-back") {
    return { ...ref, to: "pending", outcome: "aborted", error: toErrorRecord(ending.error) };
  }
  if (abortReason instanceof ClaimLostError) return undefined;
  if (abortReason instanceof TaskCancelledError) {
    return {
      ...ref,
      to: "cancelled",
      outcome: "cancelled",
      error: withOwnError({ code: abortReason.code, message: abortReason.reason ?? "Cancelled by request." }, ending),
    };
  }
  if (abortReason instanceof WorkerStoppingError || abortReason instanceof CutOffError) {
    return { ...ref, to: "pending", outcome: "aborted", error: withOwnError(toErrorRecord(abortReason), ending) };
  }
  return failure(attempt, ending.kind === "threw" ? (abortReason ?? ending.error) : abortReason, settings, random);
}

/** Told to stop, a handler may fail on its own account: that is the cause. That it stopped is none. */
function withOwnError(reason: ErrorRecord, ending: Ending): ErrorRecord {
  if (ending.kind !== "threw") return reason;
  const own = toErrorRecord(ending.error);
  return own.code === reason.code || own.name === "AbortError" ? reason : { ...reason, cause: own };
}

function failure(attempt: EndedAttempt, error: unknown, settings: TaskSettings, random: number): Outcome {
  const isWorthRetrying = !isPointless(error) && says(settings.isWorthRetrying, error, attempt.onUnlessThrew);
  const next = afterFailure({ failures: attempt.failures, isWorthRetrying, random }, settings.retry);
  const base = { ...attempt.ref, outcome: "failed", failures: next.failures, error: errorOf(attempt, error) } as const;
  return next.kind === "fail" ? { ...base, to: "failed" } : { ...base, to: "pending", delayMs: next.delayMs };
}

function errorOf({ ending, stoppingForMs = 0 }: EndedAttempt, error: unknown): ErrorRecord {
  if (!(error instanceof TaskTimedOutError)) return toErrorRecord(error);
  if (ending.kind === "stopped" && ending.stack !== undefined)
    return stuckRecord(error, { whose: "runner", ended: "runner", stack: ending.stack });
  const record = withOwnError(toErrorRecord(error), ending);
  if (ending.kind !== "stopped" && ending.kind !== "abandoned") return record;
  return { ...record, message: `${record.message} ${deafWords(ending, stoppingForMs)}` };
}

/** It took longer than its timeout by this. */
function deafWords(ending: Extract<Ending, { kind: "stopped" | "abandoned" }>, stoppingForMs: number): string {
  const deaf = "It did not stop when its signal fired";
  const later = `${formatDuration(stoppingForMs)} later`;
  if (ending.kind === "abandoned") return `${deaf}, so it was abandoned ${later} (abortGrace) and may still go on.`;
  return ending.wasEnded
    ? `${deaf}, so its runner was ended ${later} (abortGrace).`
    : `${deaf}. Its runner ended ${later}.`;
}

/** The same input and the same code would fail in the same way again. */
function isPointless(error: unknown): boolean {
  return error instanceof InvalidInputError || error instanceof ResultNotStorableError;
}

/** The user's own judgement of an error; one that throws is no judgement. */
function says(
  isWorthRetrying: (error: unknown) => boolean,
  error: unknown,
  onThrew: EndedAttempt["onUnlessThrew"],
): boolean {
  try {
    return isWorthRetrying(error);
  } catch (thrown) {
    onThrew?.(examinable(thrown));
    return true;
  }
}

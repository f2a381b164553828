/** An attempt that is over, and what is said of it once it is known what became of its outcome. */
import type { Events, TaskRef } from "../events.ts";
import type { ClaimedTask } from "../sql/claims.ts";
import type { Outcome } from "../sql/outcomes.ts";
import { inOneLine, toErrorRecord } from "../task/error-record.ts";
import { ClaimLostError } from "../task/errors.ts";
import type { Execution } from "./execution.ts";
import type { OutcomeStatus } from "./rounds.ts";

export interface EndedExecution {
  readonly execution: Execution;
  /** To be written. */
  readonly outcome: Outcome;
  readonly durationMs: number;
}

export function tellOfEnd(
  events: Events,
  { execution, outcome, durationMs }: EndedExecution,
  status: OutcomeStatus,
): void {
  const { claimed } = execution;
  const ref = refOf(claimed);
  if (status === "late") {
    execution.abort(new ClaimLostError(claimed.claimId, claimed.taskId));
    events.emit("claim.lost", { ...ref, refusedOutcome: outcome.outcome });
    return;
  }
  const isConfirmed = status === "repeat" && outcome.confirm === true;
  if (status === "repeat" && !isConfirmed) events.emit("outcome.repeated", ref);
  events.emit("task.ended", {
    ...ref,
    outcome: isConfirmed ? "completed" : outcome.outcome,
    durationMs,
    willRunAgain: outcome.to === "pending" && !isConfirmed,
    error: isConfirmed ? undefined : outcome.error,
  });
}

/** The attempt's outcome stays: nothing that its handler does later counts. But nobody else would ever hear of the error. */
export function tellOfLateError(events: Pick<Events, "emit">, task: TaskRef, error: unknown): void {
  events.emit("handler.failed-after-end", { ...task, error, reason: inOneLine(toErrorRecord(error)) });
}

export function tellOfUnlessThrew(events: Pick<Events, "emit">, task: TaskRef, error: unknown): void {
  events.emit("retry.unless-threw", { ...task, error, reason: inOneLine(toErrorRecord(error)) });
}

export function refOf(claimed: ClaimedTask): TaskRef {
  return { taskId: claimed.taskId, claimId: claimed.claimId, name: claimed.name, attempt: claimed.attempt };
}

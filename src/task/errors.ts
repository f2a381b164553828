/** One error per way in which a task or a call about it can go wrong. */
import { type Advice, advise } from "../advice.ts";
import { exactDuration } from "../config/duration.ts";
import { EverbeatError } from "../errors.ts";
import { type ErrorRecord, inOneLine } from "./error-record.ts";
import type { ClaimId, TaskId } from "./ids.ts";
import { NOT_JSON } from "./json.ts";
import type { EndedState } from "./states.ts";

export class ClaimLostError extends EverbeatError {
  readonly code = "CLAIM_LOST";
  readonly kind = "conflict";
  constructor(
    readonly claimId: ClaimId,
    readonly taskId: TaskId,
    options?: { cause?: unknown },
  ) {
    super(
      `Claim ${claimId} on task ${taskId} no longer holds: the task was taken away, cancelled or ended by someone else. ` +
        "Stop this work: nothing it writes will be accepted.",
      options,
    );
  }
}

export class TaskCancelledError extends EverbeatError {
  readonly code = "TASK_CANCELLED";
  readonly kind = "conflict";
  constructor(
    readonly taskId: TaskId,
    readonly reason?: string,
  ) {
    super(`Task ${taskId} was cancelled${reason ? `: ${reason}` : ""}.`);
  }
}

export class TaskTimedOutError extends EverbeatError {
  readonly code = "TASK_TIMED_OUT";
  readonly kind = "refused";
  constructor(
    readonly taskId: TaskId,
    readonly timeoutMs: number,
  ) {
    super(
      `Task ${taskId} ran for longer than its timeout of ${exactDuration(timeoutMs)}. Raise "timeout", or make the handler faster.`,
    );
  }
}

export class WorkerStoppingError extends EverbeatError {
  readonly code = "WORKER_STOPPING";
  readonly kind = "not-now";
  constructor(readonly taskId: TaskId) {
    super(`The worker is shutting down and task ${taskId} did not end within the grace; it will run again, uncharged.`);
  }
}

/** The replica cannot prove its claims any more, and others may soon take them. */
export class CutOffError extends EverbeatError {
  readonly code = "CUT_OFF";
  readonly kind = "unavailable";
  constructor(readonly taskId: TaskId) {
    super(
      `The worker is cut off from the database and task ${taskId} may be run by another: this one stops, uncharged.`,
    );
  }
}

/** In a runner: the replica that it works for is dead, and another may soon run the task. */
export class ReplicaGoneError extends EverbeatError {
  readonly code = "REPLICA_GONE";
  readonly kind = "conflict";
  constructor(readonly taskId: TaskId) {
    super(`The replica that task ${taskId} runs for is dead: this runner ends now, and nothing it writes will count.`);
  }
}

export class InvalidInputError extends EverbeatError {
  readonly code = "INVALID_INPUT";
  readonly kind = "bad-request";
  constructor(
    readonly task: string,
    readonly problems: readonly string[],
  ) {
    super(
      `The input of task "${task}" does not fit its schema:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`,
    );
  }
}

export class ResultNotStorableError extends EverbeatError {
  readonly code = "RESULT_NOT_STORABLE";
  readonly kind = "bad-request";
  /** `cause`: what a getter or a toJSON() of the result threw. */
  constructor(task: string, { problem, cause }: { problem: string; cause?: unknown }) {
    const advice = problem.startsWith(NOT_JSON) ? " Return plain JSON, or nothing." : "";
    super(`The result of task "${task}" cannot be stored: ${problem}.${advice}`, { cause });
  }
}

export class CompletionNotCommittedError extends EverbeatError {
  readonly code = "COMPLETION_NOT_COMMITTED";
  readonly kind = "conflict";
  constructor(readonly taskId: TaskId) {
    super(
      `Task ${taskId} was completed in a transaction of its own (completeIn) that did not commit, so it has not completed.`,
    );
  }
}

/** A transaction was to be taken part in, and none was begun: the statement would commit by itself. */
export class NotInTransactionError extends EverbeatError {
  readonly code = "NOT_IN_TRANSACTION";
  readonly kind = "bad-request";
  /** `wanted`: what was to be in it. */
  constructor(wanted: string, options?: { cause?: unknown }) {
    super(
      `${wanted}, but none was begun. ` +
        'Send "begin" on that client first, write what belongs together, and send "commit" last; or use everbeat.database.transaction().',
      options,
    );
  }
}

export class CompletedDifferentlyError extends EverbeatError {
  readonly code = "COMPLETED_DIFFERENTLY";
  readonly kind = "conflict";
  constructor(
    readonly taskId: TaskId,
    options?: { cause?: unknown },
  ) {
    super(
      `Task ${taskId} was completed in this transaction before, with another result. A task completes once: call completeIn once.`,
      options,
    );
  }
}

export class DuplicateTaskError extends EverbeatError {
  readonly code = "DUPLICATE_TASK";
  readonly kind = "conflict";
  constructor(
    readonly task: string,
    readonly uniqueKey: string,
    readonly holder: TaskId,
  ) {
    super(`Task "${task}" was not enqueued: its unique key "${uniqueKey}" is taken by task ${holder}.`);
  }

  override get advice(): readonly Advice[] {
    return [advise("See how the task that has the key is doing.", "tasks.explain", { id: this.holder })];
  }
}

/** An id that a caller chose twice, for tasks of two names. */
export class IdTakenError extends EverbeatError {
  readonly code = "ID_TAKEN";
  readonly kind = "conflict";
  constructor(
    readonly task: string,
    readonly taskId: TaskId,
    /** The name of the task that has the id. */
    readonly holder: string,
  ) {
    super(`Task "${task}" was not enqueued: its id ${taskId} is that of a task "${holder}". Choose another id for it.`);
  }

  override get advice(): readonly Advice[] {
    return [advise("See what has the id.", "tasks.explain", { id: this.taskId })];
  }
}

export class TaskNotFoundError extends EverbeatError {
  readonly code = "TASK_NOT_FOUND";
  readonly kind = "not-found";
  constructor(readonly taskId: string) {
    super(
      `There is no task ${taskId}: it was never enqueued, its transaction did not commit, or it was purged after its retention.`,
    );
  }
}

/** Somebody waited for a result, and the task ended without one. */
export class TaskEndedError extends EverbeatError {
  readonly code: string;
  readonly kind = "conflict";
  constructor(
    readonly taskId: TaskId,
    readonly state: Exclude<EndedState, "completed">,
    readonly error: ErrorRecord,
  ) {
    super(`Task ${taskId} ${state === "cancelled" ? "was cancelled" : state}: ${inOneLine(error)}`);
    this.code = error.code;
  }

  override get advice(): readonly Advice[] {
    return [advise("See why, with the evidence.", "tasks.explain", { id: this.taskId })];
  }
}

export class ResultTimeoutError extends EverbeatError {
  readonly code = "RESULT_TIMEOUT";
  readonly kind = "not-now";
  constructor(
    readonly taskId: TaskId,
    readonly timeoutMs: number,
    readonly state: string,
  ) {
    super(
      `Task ${taskId} has not ended within ${exactDuration(timeoutMs)}; it is ${state}. It goes on: ask again, or cancel it.`,
    );
  }

  override get advice(): readonly Advice[] {
    return [
      advise("See how it is doing.", "tasks.explain", { id: this.taskId }),
      advise("Cancel it, if it should not go on.", "tasks.cancel", { ids: [this.taskId] }),
    ];
  }
}

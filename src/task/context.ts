/** What a handler is given besides its input. */
import type { Duration } from "../config/duration.ts";
import type { HandlerLog } from "./handler-log.ts";
import type { ClaimId, TaskId } from "./ids.ts";
import type { ProgressValue } from "./progress.ts";

/** Anything that runs SQL inside a transaction of the caller's: a `pg` client, or a thin adapter to another library's. */
export interface Transaction {
  query(text: string, values?: unknown[]): Promise<unknown>;
}

export interface TaskInfo {
  readonly id: TaskId;
  readonly name: string;
  readonly queue: string;
  readonly priority: number;
  /** 1 for the first try. */
  readonly attempt: number;
  /** How many attempts have failed so far: what the retry policy counts. */
  readonly failures: number;
  readonly enqueuedAt: Date;
  readonly metadata: unknown;
}

/** The right to run this task, and to write about it: void from the moment on in which someone else may have it. */
export interface Claim {
  /** The fencing token: every later claim, on any task, has a larger one. Hand it to other systems to fence them too. */
  readonly id: ClaimId;
  /** Makes this transaction fail unless the claim still holds when it commits. */
  guard(tx: Transaction): Promise<void>;
  /**
   * Completes the task as part of this transaction: its effects and the completion commit together or not at all.
   * Returns the result, for the handler to return.
   */
  completeIn<Result>(tx: Transaction, result: Result): Promise<Result>;
}

export interface TaskContext {
  /** Fires when the work should stop: cancelled, timed out, shutting down, or the claim was lost. `reason` says which. */
  readonly signal: AbortSignal;
  readonly task: TaskInfo;
  readonly claim: Claim;
  /** Takes fields and a text, a text alone, or an error. */
  readonly log: HandlerLog;
  /**
   * Says what the handler is at. Resolves when that is on record, which need not be waited for; where the claim is lost it is not
   * written, and the signal tells. A sign of getting on: see `stalledAfter`.
   */
  phase(name: string, details?: unknown): Promise<void>;
  /** Says how far it is: a share from 0 to 1, or how many of how many. Written at most once a second; the last one is never lost. */
  progress(value: ProgressValue, note?: string): void;
  /** Ends this attempt here and now, uncharged, and runs the task again after the duration. Never returns. */
  snooze(duration: Duration): never;
}

/** Runs around every handler; calls `next` to go on, and may look at, change or refuse what happens. */
export type Middleware = (context: TaskContext, next: () => Promise<unknown>) => Promise<unknown>;

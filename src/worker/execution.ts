/**
 * One attempt in hand: what the worker can do to it while it runs, and how it ends, exactly once.
 *
 * Most handlers never look at their signal, their claim or their log, and most attempts end by themselves: what only the
 * others need is made when it is asked for.
 */

import { randomUUID } from "node:crypto";
import type { TaskRef } from "../events.ts";
import type { Deadline } from "../heart/deadlines.ts";
import { presencesOf } from "../recovery/suspicion.ts";
import { type ClaimHandle, createClaimHandle } from "../runner/claim-handle.ts";
import type { ClaimedTask } from "../sql/claims.ts";
import type { AnyTask } from "../task/define-task.ts";
import { examinable } from "../task/error-record.ts";
import { CutOffError, TaskTimedOutError } from "../task/errors.ts";
import { Timer } from "../timer.ts";
import type { OwnStop } from "./crash-outcome.ts";
import { refOf, tellOfLateError } from "./ended-execution.ts";
import type { ExecutionParts } from "./execution-parts.ts";
import type { Ending } from "./outcome.ts";
import { atMost } from "./waiting.ts";

/** One object for many attempts, not a function for each. */
export interface EndingListener {
  /** As soon as it is known. `isLast`: nobody of its group is at work any more. */
  onEnding(execution: Execution, ending: Ending, isLast: boolean): void;
}

export class Execution {
  readonly claimed: ClaimedTask;
  readonly task: AnyTask;
  readonly startedAtMs: number;
  /** Where it is among those that were begun: for the hand. */
  place = 0;
  readonly parts: ExecutionParts;
  #claim: ClaimHandle | undefined;
  #controller: AbortController | undefined;
  #isAborted = false;
  #abortReason: unknown;
  #abortedAtMs: number | undefined;
  /** From its begin to its end. */
  #listener: EndingListener | undefined;
  #hasEnded = false;
  #timeout: Timer | undefined;
  #grace: Timer | undefined;
  #deadline: Deadline | undefined;
  #isAbandoned = false;
  #ownStop: OwnStop | undefined;

  constructor(
    task: AnyTask,
    claimed: ClaimedTask,
    parts: ExecutionParts,
    startedAtMs: number = performance.now(),
    claim?: ClaimHandle,
  ) {
    this.task = task;
    this.claimed = claimed;
    this.parts = parts;
    this.startedAtMs = startedAtMs;
    this.#claim = claim;
  }

  get claim(): ClaimHandle {
    const { claimId, taskId, name } = this.claimed;
    const { replica, schema, resultLimitBytes, reporting } = this.parts;
    const settle = () => atMost(SETTLE_WITHIN_MS, reporting.flush(claimId));
    this.#claim ??= createClaimHandle({
      claimId,
      taskId,
      name,
      replicaId: replica.id,
      schema,
      resultLimitBytes,
      settle,
    });
    return this.#claim;
  }

  /** Perhaps: the handler's own transaction may not have committed. */
  get completedInTransaction(): boolean {
    return this.#claim?.completedInTransaction ?? false;
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#isAborted) this.#controller.abort(this.#abortReason);
    }
    return this.#controller.signal;
  }

  get isAborted(): boolean {
    return this.#isAborted;
  }

  /** Why the handler was told to stop, if it was. */
  get abortReason(): unknown {
    return this.#abortReason;
  }

  /** How long ago it was told; undefined where it was not. */
  get stoppingForMs(): number | undefined {
    return this.#abortedAtMs === undefined ? undefined : performance.now() - this.#abortedAtMs;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** From here on it has a timeout and can end. */
  begin(listener: EndingListener): void {
    this.#listener = listener;
    this.startTimeout();
    if (this.#isAborted) this.#beginGrace();
  }

  /** From the beginning. */
  startTimeout(): void {
    const { timeoutMs } = this.task.settings;
    if (timeoutMs === undefined || !this.#listener) return;
    const { claimId, taskId } = this.claimed;
    const { settings } = this.task;
    // Should this thread's loop be blocked, its heart goes by the same time.
    if (settings.runIn === "inline")
      this.#deadline = this.parts.deadlines.begin({ claimId, taskId, timeoutMs, settings });
    const onTimeout = () => {
      this.abort(new TaskTimedOutError(taskId, timeoutMs));
      // It was told: from here on it has its grace.
      this.#deadline?.putOff(this.parts.abortGraceMs);
    };
    this.#timeout = new Timer(timeoutMs, onTimeout);
  }

  /** While it waits for a runner: that time is not the handler's. */
  stopTimeout(): void {
    this.#timeout?.stop();
  }

  /** Only the first ending counts. */
  end(ending: Ending): void {
    const listener = this.#listener;
    if (!listener) return;
    this.#listener = undefined;
    this.#hasEnded = true;
    this.#timeout?.stop();
    this.#grace?.stop();
    this.#deadline?.over();
    listener.onEnding(this, ending, true);
  }

  /** Tells the handler to stop, and why. Only the first reason counts. */
  abort(reason: unknown): void {
    if (this.#isAborted) return;
    this.#isAborted = true;
    this.#abortReason = reason;
    this.#abortedAtMs = performance.now();
    this.#controller?.abort(reason);
    this.#beginGrace();
  }

  /** Waits no longer for the handler, once it was told to stop. */
  abandon(): void {
    this.#isAbandoned = true;
    if (this.#grace) this.end({ kind: "abandoned" });
  }

  /** Something that the handler set going and nobody waits for has failed. */
  onStray(thrown: unknown): void {
    const error = examinable(thrown);
    if (this.#hasEnded) tellOfLateError(this.parts.events, refOf(this.claimed), error);
    this.abort(error);
    this.end({ kind: "threw", error });
  }

  get endedTask(): TaskRef | undefined {
    return this.#hasEnded ? refOf(this.claimed) : undefined;
  }

  /** Its handler has told its own worker to stop. */
  get ownStop(): OwnStop | undefined {
    return this.#ownStop;
  }

  /** One that was told to stop itself does not stop its worker any more: that was told before. */
  onOwnStop(stop: OwnStop = { id: randomUUID(), tasks: 1 }): void {
    if (!this.#isAborted) this.#ownStop ??= stop;
  }

  #beginGrace(): void {
    if (!this.#listener || this.#grace) return;
    // Its heart ends the process if it does not stop: to wait no longer would only hide that it goes on.
    if (this.#abortReason instanceof CutOffError) return;
    // A runner is ended if its handler does not stop, and what it ran is over when it is, not before.
    if (this.parts.runners?.take(this.task)) return;
    const graceMs = this.#isAbandoned ? 0 : this.parts.abortGraceMs;
    this.#grace = new Timer(graceMs, () => this.end({ kind: "abandoned" }));
  }
}

/** A transaction of the handler's own may hold the last free connection: then its end is not put off for long. */
const SETTLE_WITHIN_MS = 1_000;

/** Work that someone else may repeat, or that excludes others by its key, must not go on unseen. */
export function mustStop({ task, claimed }: Pick<Execution, "task" | "claimed">): boolean {
  return task.settings.whenCutOff === "abort" || task.settings.onCrash !== "fail" || claimed.exclusiveKey !== null;
}

/** It was at a crash. The next crash tells whether it was the cause, so it is in no batch, and nothing else is in its runner. */
export function isSuspect(claimed: ClaimedTask): boolean {
  return presencesOf(claimed) > 0;
}

/** Aborts an attempt that takes longer than its task's timeout. Stands still while the attempt waits for a runner. */
import { TaskTimedOutError } from "../task/errors.ts";
import type { Execution } from "./execution.ts";

export const MAX_TIMER_MS = 2_147_483_647;

export class AttemptTimer {
  readonly #execution: Execution;
  #timer: NodeJS.Timeout | undefined;

  constructor(execution: Execution) {
    this.#execution = execution;
    this.start();
  }

  /** From the beginning. */
  start(): void {
    const { task, claimed, abort } = this.#execution;
    const { timeoutMs } = task.settings;
    if (timeoutMs === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(
      () => abort(new TaskTimedOutError(claimed.taskId, timeoutMs)),
      Math.min(timeoutMs, MAX_TIMER_MS),
    );
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

/** What a handler is given besides its input. */
import { withFields } from "../log.ts";
import type { Claim, TaskContext, TaskInfo } from "../task/context.ts";
import { createHandlerLog, type HandlerLog } from "../task/handler-log.ts";
import { snooze } from "../task/snooze.ts";
import type { Execution } from "./execution.ts";
import type { Reporter } from "./reports.ts";

/** A class: an object with getters of its own takes longer to make than all the rest of an attempt that uses none of them. */
export class HandlerContext implements TaskContext {
  readonly #execution: Execution;
  #task: TaskInfo | undefined;

  constructor(execution: Execution) {
    this.#execution = execution;
  }

  get signal(): AbortSignal {
    return this.#execution.signal;
  }

  get claim(): Claim {
    return this.#execution.claim;
  }

  get task(): TaskInfo {
    const { claimed } = this.#execution;
    this.#task ??= {
      id: claimed.taskId,
      name: claimed.name,
      queue: claimed.queue,
      priority: claimed.priority,
      attempt: claimed.attempt,
      failures: claimed.failures,
      enqueuedAt: new Date(claimed.createdMs),
      metadata: claimed.metadata,
    };
    return this.#task;
  }

  get log(): HandlerLog {
    const { parts, claimed } = this.#execution;
    const { name, taskId, attempt } = claimed;
    const log = this.#reporter.keeping(withFields(parts.log, { task: name, taskId, attempt }));
    return createHandlerLog((level, fields, message) => log[level](fields, message));
  }

  // Functions that need no `this`: handlers take their context apart.
  get phase(): TaskContext["phase"] {
    return this.#reporter.phase;
  }

  get progress(): TaskContext["progress"] {
    return this.#reporter.progress;
  }

  get snooze(): TaskContext["snooze"] {
    return snooze;
  }

  get #reporter(): Reporter {
    return this.#execution.parts.reporting.of(this.#execution);
  }
}

/** What a handler is given besides its input, and how `snooze` leaves it. */
import { durationMs } from "../config/duration.ts";
import { InvalidOptionsError } from "../config/problems.ts";
import { withFields } from "../log.ts";
import type { TaskContext } from "../task/context.ts";
import type { Execution } from "./execution.ts";
import type { ExecutionParts } from "./execution-parts.ts";

/** Thrown, so that `snooze` never returns, and told apart from a failure. */
export class Snooze extends Error {
  constructor(readonly delayMs: number) {
    super("snoozed");
  }
}

export function createContext(execution: Execution, parts: ExecutionParts): TaskContext {
  const { claimed } = execution;
  return {
    get signal() {
      return execution.signal;
    },
    get claim() {
      return execution.claim;
    },
    get log() {
      return withFields(parts.log, { task: claimed.name, taskId: claimed.taskId, attempt: claimed.attempt });
    },
    task: {
      id: claimed.taskId,
      name: claimed.name,
      queue: claimed.queue,
      priority: claimed.priority,
      attempt: claimed.attempt,
      failures: claimed.failures,
      get enqueuedAt() {
        return new Date(claimed.createdAt);
      },
      metadata: claimed.metadata,
    },
    snooze,
  };
}

function snooze(duration: Parameters<TaskContext["snooze"]>[0]): never {
  const ms = durationMs(duration);
  if (ms === undefined || ms < 0)
    throw new InvalidOptionsError("snooze", [`must be a duration such as "5m", not ${String(duration)}`]);
  throw new Snooze(ms);
}

/** What a handler is given besides its input. */
import { withFields } from "../log.ts";
import type { TaskContext } from "../task/context.ts";
import { snooze } from "../task/snooze.ts";
import type { Execution } from "./execution.ts";
import type { ExecutionParts } from "./execution-parts.ts";

export function createContext(execution: Execution, parts: ExecutionParts): TaskContext {
  const { claimed } = execution;
  const reporter = () => parts.reporting.of(claimed.claimId);
  return {
    get signal() {
      return execution.signal;
    },
    get claim() {
      return execution.claim;
    },
    get log() {
      const fields = { task: claimed.name, taskId: claimed.taskId, attempt: claimed.attempt };
      return reporter().keeping(withFields(parts.log, fields));
    },
    get phase() {
      return reporter().phase;
    },
    get progress() {
      return reporter().progress;
    },
    task: {
      id: claimed.taskId,
      name: claimed.name,
      queue: claimed.queue,
      priority: claimed.priority,
      attempt: claimed.attempt,
      failures: claimed.failures,
      enqueuedAt: new Date(claimed.createdMs),
      metadata: claimed.metadata,
    },
    snooze,
  };
}

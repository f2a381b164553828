/** An attempt in hand that no database knows of: what a worker would have of it, with a claim of the test's own. */
import { randomUUID } from "node:crypto";
import type { ClaimedTask } from "../sql/claims.ts";
import type { AnyTask } from "../task/define-task.ts";
import type { ClaimId, TaskId } from "../task/ids.ts";
import { toJson } from "../task/json.ts";
import { Execution } from "../worker/execution.ts";
import type { ExecutionParts } from "../worker/execution-parts.ts";
import { createFakeClaim, type FakeClaim } from "./fake-claim.ts";
import type { HandlerSettings } from "./handler-options.ts";

export interface FakeExecution {
  readonly execution: Execution;
  readonly claim: FakeClaim;
}

export interface FakeAttempt {
  readonly input: unknown;
  /** Its place in the batch, from 0. */
  readonly index: number;
  readonly settings: HandlerSettings;
}

/** A worker's own, but for its claim, and for a signal that the test can fire. */
export function createFakeExecution(task: AnyTask, attempt: FakeAttempt, parts: ExecutionParts): FakeExecution {
  const { signal } = attempt.settings;
  const claimed = toClaimed(task, attempt);
  const { claimId, taskId, name } = claimed;
  const claim = createFakeClaim({ claimId, taskId, name, isLost: attempt.settings.claim?.isLost === true });
  const execution = new Execution(task, claimed, parts, undefined, claim);
  if (signal?.aborted) execution.abort(signal.reason);
  else signal?.addEventListener("abort", () => execution.abort(signal.reason), { once: true });
  return { execution, claim };
}

/** The row that a claim would have brought. */
function toClaimed(task: AnyTask, { input, index, settings }: FakeAttempt): ClaimedTask {
  const attempt = settings.attempt ?? 1;
  const enqueuedAt = settings.enqueuedAt === undefined ? new Date() : new Date(settings.enqueuedAt);
  return {
    claimId: String(BigInt(settings.claim?.id ?? 1) + BigInt(index)) as ClaimId,
    taskId: (index === 0 && settings.id ? settings.id : randomUUID()) as TaskId,
    state: "running",
    name: task.name,
    queue: settings.queue ?? task.settings.queue,
    priority: settings.priority ?? task.settings.priority,
    attempt,
    failures: settings.failures ?? attempt - 1,
    crashes: 0,
    suspicion: 0,
    createdMs: enqueuedAt.getTime(),
    input: throughJson(input),
    metadata: throughJson(settings.metadata),
    exclusiveKey: null,
  };
}

/** As it comes out of the database: a Date is text by then, and what was left out is null. */
function throughJson(value: unknown): unknown {
  const json = toJson(value);
  return json.ok ? JSON.parse(json.text) : null;
}

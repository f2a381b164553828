/** How an attempt ends that blocked its worker's loop past its timeout: as its heart writes it. Pure. */
import type { TimedOutClaim } from "../sql/blocked-loops.ts";
import type { Outcome } from "../sql/outcomes.ts";
import { TaskTimedOutError } from "../task/errors.ts";
import type { ReplicaId } from "../task/ids.ts";
import { afterFailure, DEFAULT_RETRY } from "../task/retry.ts";
import { storedSettings } from "../task/stored-settings.ts";
import { stuckRecord } from "../task/stuck-record.ts";
import type { OpenDeadline } from "./deadlines.ts";

export function timedOutOutcome(ended: {
  claim: Omit<TimedOutClaim, "name">;
  deadline: Pick<OpenDeadline, "timeoutMs" | "isWorthRetrying">;
  replicaId: ReplicaId;
  stack: string | undefined;
  random: number;
}): Outcome {
  const { claim, deadline, replicaId, stack, random } = ended;
  const error = new TaskTimedOutError(claim.taskId, deadline.timeoutMs);
  const { isWorthRetrying } = deadline;
  const next = afterFailure(
    { failures: claim.failures, isWorthRetrying, random },
    storedSettings(claim.settings).retry ?? DEFAULT_RETRY,
  );
  const base = {
    claim: claim.claimId,
    task: claim.taskId,
    replica: replicaId,
    outcome: "failed",
    failures: next.failures,
    error: stuckRecord(error, { whose: "worker", ended: "process", stack }),
  } as const;
  return next.kind === "fail" ? { ...base, to: "failed" } : { ...base, to: "pending", delayMs: next.delayMs };
}

/** A task on its way to a runner, and its outcome on the way back. Pure. */
import type { BatchItem } from "../task/define-task.ts";
import type { ReplicaId } from "../task/ids.ts";
import { Snooze } from "../task/snooze.ts";
import { reviveError } from "./carried-error.ts";
import type { CarriedOutcome, RunItem } from "./protocol.ts";

export function carryItem({ input, context: { task, claim } }: BatchItem<never>, replicaId: ReplicaId): RunItem {
  return {
    input,
    task: { ...task, enqueuedAt: task.enqueuedAt.toISOString() },
    claimId: claim.id,
    replicaId,
  };
}

export function reviveOutcome(outcome: CarriedOutcome): unknown {
  if (outcome.kind === "returned") return JSON.parse(outcome.resultJson) as unknown;
  return outcome.kind === "snoozed" ? new Snooze(outcome.delayMs) : reviveError(outcome.error);
}

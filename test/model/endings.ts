/** How the model lets an attempt end, and the outcome that its process writes then. */
import type { Outcome } from "../../src/sql/outcomes.ts";
import type { ClaimId, ReplicaId, TaskId } from "../../src/task/ids.ts";

export type Ending = "complete" | "fail" | "retry" | "snooze" | "abort";

export function outcomeOf(
  { claim, task, replica }: { claim: ClaimId; task: TaskId; replica: ReplicaId },
  ending: Ending,
): Outcome {
  const ref = { claim, task, replica };
  const error = { code: "MODEL", message: ending };
  if (ending === "complete") return { ...ref, to: "completed", outcome: "completed", resultJson: "1" };
  if (ending === "fail") return { ...ref, to: "failed", outcome: "failed", failures: 1, error };
  if (ending === "retry") return { ...ref, to: "pending", outcome: "failed", failures: 1, delayMs: 5_000, error };
  if (ending === "snooze") return { ...ref, to: "pending", outcome: "snoozed", delayMs: 20_000 };
  return { ...ref, to: "pending", outcome: "aborted", error };
}

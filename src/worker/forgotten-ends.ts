/** Attempts that this process has ended, and that are on record as claimed or running again: the database has lost the last part of its memory. */
import type { Database } from "../database/database.ts";
import { type RecoveryPolicy, recoveryOf } from "../recovery/recovery-action.ts";
import { noBlameOn } from "../recovery/suspicion.ts";
import { type ClaimedTask, readLastClaimIdBeforeEpoch } from "../sql/claims.ts";
import type { Outcome } from "../sql/outcomes.ts";
import type { ReplicaId } from "../task/ids.ts";
import type { TaskSettings } from "../task/settings.ts";
import type { Received } from "./received.ts";

export interface Unknown {
  /** The reply to their claim was lost: no code of theirs has run. */
  readonly unbegun: readonly ClaimedTask[];
  /** They have run, and their end was forgotten. */
  readonly forgotten: readonly ClaimedTask[];
}

/**
 * The database forgets nothing within an epoch, so only claims of an earlier epoch can be forgotten. (In the current epoch, a claim with a
 * small id may come from a statement that the server carried out late.) The state on record says nothing: the start may be forgotten with the end.
 */
export async function tellApart(
  database: Database,
  unknown: readonly ClaimedTask[],
  received: Received,
): Promise<Unknown> {
  const had = unknown.filter(({ claimId }) => received.had(claimId));
  if (had.length === 0) return { unbegun: unknown, forgotten: [] };
  const before = await readLastClaimIdBeforeEpoch(database);
  const forgotten = new Set(had.filter(({ claimId }) => Number(claimId) <= before));
  return { unbegun: unknown.filter((task) => !forgotten.has(task)), forgotten: [...forgotten] };
}

/** As after a crash of its worker, which nobody is charged with. Pure. */
export function forgottenOutcome(
  { claimId, taskId, crashes }: ClaimedTask,
  replicaId: ReplicaId,
  { onCrash, retry, crashBudget }: TaskSettings,
  { policy, random }: { policy: RecoveryPolicy; random: number },
): Outcome {
  const task = { state: "running", crashes, suspicion: 0, isCancelled: false, onCrash, retry, crashBudget } as const;
  const action = recoveryOf(task, noBlameOn(task), { ...policy, recoversRunning: true }, random);
  const base = { claim: claimId, task: taskId, replica: replicaId, error: END_FORGOTTEN };
  return action.kind === "again"
    ? { ...base, to: "pending", outcome: "aborted", delayMs: action.delayMs }
    : { ...base, to: "failed", outcome: "failed" };
}

const END_FORGOTTEN = {
  code: "END_FORGOTTEN",
  message:
    "This attempt had ended, but the database has lost the record of its end, as after a crash or a failover. The task may have had all of its effects.",
};

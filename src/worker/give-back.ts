/** Giving back what was claimed and has not begun. */
import type { Database } from "../database/database.ts";
import { adoptClaims, type ClaimedTask, releaseUnbegun } from "../sql/claims.ts";
import { endHeldClaims } from "../sql/outcomes.ts";
import { toErrorRecord } from "../task/error-record.ts";
import { WorkerStoppingError } from "../task/errors.ts";
import type { ClaimId, ReplicaId } from "../task/ids.ts";

/** What a leaving replica still holds without knowing: claims whose reply was lost and that were not looked for since. */
export async function giveBackUnknown(
  database: Database,
  replicaId: ReplicaId,
  known: readonly ClaimId[],
): Promise<void> {
  await giveBack(database, replicaId, await adoptClaims(database, replicaId, known));
}

/** None of their code has run, whatever their state, so that others may have them at once and nothing is charged. */
export async function giveBack(
  database: Database,
  replicaId: ReplicaId,
  tasks: readonly Pick<ClaimedTask, "claimId" | "taskId" | "state">[],
): Promise<void> {
  if (tasks.length === 0) return;
  const claims = tasks.map((task) => task.claimId);
  const released = new Set(await releaseUnbegun(database, claims, replicaId));
  // Cancelled meanwhile, or lost. What is on record as claimed needs nobody who stops it.
  const left = tasks.filter((task) => task.state === "running" && !released.has(task.claimId));
  if (left.length === 0) return;
  await endHeldClaims(
    database,
    left.map(({ claimId, taskId }) => ({
      claim: claimId,
      task: taskId,
      replica: replicaId,
      to: "pending",
      outcome: "aborted",
      error: toErrorRecord(new WorkerStoppingError(taskId)),
    })),
  );
}

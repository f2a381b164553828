/** What a leaving replica still holds without knowing: claims whose reply was lost and that were not looked for since. */
import type { Database } from "../database/database.ts";
import { adoptClaims, type ClaimedTask, releaseClaims } from "../sql/claims.ts";
import { endClaims } from "../sql/outcomes.ts";
import { toErrorRecord } from "../task/error-record.ts";
import { WorkerStoppingError } from "../task/errors.ts";
import type { ClaimId, ReplicaId } from "../task/ids.ts";

/** None of their code has run, whatever their state, so that others may have them at once and nothing is charged. */
export async function giveBackUnknown(
  database: Database,
  replicaId: ReplicaId,
  known: readonly ClaimId[],
): Promise<void> {
  await giveBack(database, replicaId, await adoptClaims(database, replicaId, known));
}

export async function giveBack(
  database: Database,
  replicaId: ReplicaId,
  tasks: readonly Pick<ClaimedTask, "claimId" | "taskId" | "state">[],
): Promise<void> {
  const claimed = tasks.filter((task) => task.state === "claimed");
  const running = tasks.filter((task) => task.state === "running");
  if (claimed.length > 0) {
    await releaseClaims(
      database,
      claimed.map((task) => task.claimId),
      replicaId,
    );
  }
  if (running.length > 0) {
    await endClaims(
      database,
      running.map(({ claimId, taskId }) => ({
        claim: claimId,
        task: taskId,
        replica: replicaId,
        to: "pending",
        outcome: "aborted",
        error: toErrorRecord(new WorkerStoppingError(taskId)),
      })),
    );
  }
}

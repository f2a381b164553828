/** Claims and ends tasks through the engine's own statements, without a worker: for tests that need to hold the moment. */
import type { Database } from "../../src/database/database.ts";
import { listsOf } from "../../src/sql/claim-lists.ts";
import type { ClaimsRead } from "../../src/sql/claim-rows.ts";
import { type ClaimedTask, type ClaimRequest, claimTasks } from "../../src/sql/claims.ts";
import { type EndingReport, endClaims, type Outcome } from "../../src/sql/outcomes.ts";
import { registerReplica } from "../../src/sql/replicas.ts";
import { type ClaimId, type ClaimOnTask, newReplicaId, type ReplicaId } from "../../src/task/ids.ts";

export function handClaimer(database: Database, names: readonly string[]) {
  const replicaId = newReplicaId();
  const look = async (request: Partial<ClaimRequest> = {}): Promise<ClaimsRead> => {
    await putOnRecord(database, replicaId, names);
    const all = { replicaId, names, queues: undefined, room: undefined, run: 100, prefetch: 0, cursors: [] };
    return claimTasks(database, { ...all, ...request });
  };
  return {
    replicaId,
    look,
    claim: async (request: Partial<ClaimRequest> = {}): Promise<ClaimedTask[]> => (await look(request)).claimed,
    complete: (task: ClaimedTask, result = "null"): Promise<EndingReport> =>
      endClaims(database, [completed(task, replicaId, result)]),
    end: (outcomes: readonly Outcome[]): Promise<EndingReport> => endClaims(database, outcomes),
  };
}

/** As any replica is, by a process that does nothing further. */
export async function putOnRecord(database: Database, id: ReplicaId, tasks: readonly string[]): Promise<void> {
  await registerReplica(database, {
    ...{
      id,
      machineId: "by-hand",
      hostname: "by-hand",
      pid: 1,
      version: "0",
      tasks,
      queues: undefined,
      recovery: null,
    },
    promise: { intervalMs: 60_000, promiseMs: 600_000, sessionPromiseMs: 600_000 },
  });
}

export function completed(task: ClaimedTask, replica: ReplicaId, resultJson = "null"): Outcome {
  return { claim: task.claimId, task: task.taskId, replica, to: "completed", outcome: "completed", resultJson };
}

export function failed(task: ClaimedTask, replica: ReplicaId): Outcome {
  return { claim: task.claimId, task: task.taskId, replica, to: "failed", outcome: "failed" };
}

/** Gives back what has not started, as a sweep does with what a dead replica had only claimed. The others had started, or are lost. */
export async function releaseClaims(
  database: Database,
  claims: readonly ClaimOnTask[],
  owner?: ReplicaId,
): Promise<ClaimId[]> {
  const rows = await database.query<{ claimId: ClaimId }>(
    `select release_claims as "claimId" from ${database.schema}.release_claims($1, $2, $3)`,
    [...listsOf(claims), owner ?? null],
  );
  return rows.map(({ claimId }) => claimId);
}

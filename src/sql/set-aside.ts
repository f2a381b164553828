/** What no worker can claim is taken out of the way. */
import type { Database } from "../database/database.ts";
import type { ReplicaId, TaskId } from "../task/ids.ts";

export interface SetAside {
  /** Null: the queue was paused, because its settings cannot be used. */
  readonly taskId: TaskId | null;
  readonly name: string | null;
  readonly queue: string;
  readonly reason: string;
}

/** Of what a claim of so many would take. Raises the alerts. */
export async function setAsideBad(
  database: Database,
  claim: {
    readonly replicaId: ReplicaId;
    readonly names: readonly string[];
    readonly queues: readonly string[] | undefined;
    readonly most: number;
  },
): Promise<readonly SetAside[]> {
  return database.query<SetAside>(
    `select task_id::text as "taskId", name, queue, reason from ${database.schema}.set_aside_bad($1, $2, $3, $4)`,
    [claim.replicaId, claim.names, claim.queues ?? null, claim.most],
  );
}

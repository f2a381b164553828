/** What no worker can claim is taken out of the way. */
import type { Database } from "../database/database.ts";
import type { TaskId } from "../task/ids.ts";
import { CLAIM_PARAMETERS, type ClaimRequest, claimValues } from "./claims.ts";

export interface SetAside {
  /** Null: the queue was paused, because nothing can be claimed from it. */
  readonly taskId: TaskId | null;
  readonly name: string | null;
  readonly queue: string;
  readonly reason: string;
  /** Nothing was done about it: no claim goes through, and no task is to blame. The caller raises the alert. */
  readonly isLeft: boolean;
}

/** Some of what makes this claim fail. None: it would go through now, or another worker is at this. Raises the alerts about what is set aside. */
export async function setAsideBad(database: Database, failed: ClaimRequest): Promise<readonly SetAside[]> {
  return database.query<SetAside>(
    `select task_id::text as "taskId", name, queue, reason, is_left as "isLeft" from ${database.schema}.set_aside_bad(${CLAIM_PARAMETERS})`,
    claimValues(failed),
  );
}

/** Those of these queues (undefined: of all) about which an alert is open that nothing can be claimed from them. */
export async function readQueuesLeft(database: Database, queues: readonly string[] | undefined): Promise<string[]> {
  const rows = await database.query<{ queue: string }>(
    `select subject as queue from ${database.schema}.alert
     where kind = 'claims-failing' and resolved_at is null and ($1::text[] is null or subject = any ($1))`,
    [queues ?? null],
  );
  return rows.map(({ queue }) => queue);
}

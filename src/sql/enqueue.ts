/** Putting tasks in. */
import type { Store } from "../database/database.ts";

export interface EnqueueNote {
  /** The place of the task in the batch, from 1. */
  readonly ordinal: number;
  /** The task that is there already. */
  readonly taskId: string;
  readonly outcome: "kept" | "replaced" | "refused";
}

/**
 * Enqueues a JSON array of tasks in one statement. Answers only for those that were not simply enqueued.
 * `refuseAll`: a refused duplicate fails the statement, so that nothing of the batch is written.
 * `alone`: the statement is a transaction of its own.
 */
export async function enqueueTasks(
  store: Store,
  batch: { tasksJson: string; hasUniqueKeys: boolean; refuseAll: boolean; alone: boolean },
): Promise<EnqueueNote[]> {
  return store.query<EnqueueNote>(
    `select ordinal, task_id::text as "taskId", outcome from ${store.schema}.enqueue_tasks($1::json, $2, $3, $4)`,
    [batch.tasksJson, batch.hasUniqueKeys, batch.refuseAll, batch.alone],
    "often",
  );
}

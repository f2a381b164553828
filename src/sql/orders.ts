/** What people order done to tasks. */
import type { Store } from "../database/database.ts";
import type { TaskId } from "../task/ids.ts";

export type CancelOutcome = "cancelled" | "cancelling" | "ended" | "unknown";
export type RetryOutcome = "pending" | "due" | "taken" | "held" | "ended" | "unknown";
export interface Ordered<Outcome> {
  readonly id: TaskId;
  readonly outcome: Outcome;
}

export async function cancelTasks(
  store: Store,
  ids: readonly TaskId[],
  order: { graceMs: number; reason: string | undefined },
): Promise<Ordered<CancelOutcome>[]> {
  return store.query(`select task_id::text as id, outcome from ${store.schema}.cancel_tasks($1::uuid[], $2, $3)`, [
    ids,
    order.graceMs,
    order.reason ?? null,
  ]);
}

export async function retryTasks(
  store: Store,
  ids: readonly TaskId[],
  force: boolean,
): Promise<Ordered<RetryOutcome>[]> {
  return store.query(`select task_id::text as id, outcome from ${store.schema}.retry_tasks($1::uuid[], $2)`, [
    ids,
    force,
  ]);
}

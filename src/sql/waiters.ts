/** Waiting for a task to end. */
import type { Store } from "../database/database.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import type { TaskId } from "../task/ids.ts";
import type { TaskState } from "../task/states.ts";

export interface TaskEnding {
  readonly id: TaskId;
  readonly state: TaskState;
  readonly result: unknown;
  readonly error: ErrorRecord | null;
}

/** Asks to be notified when these tasks end. */
export async function addWaiters(store: Store, ids: readonly TaskId[]): Promise<void> {
  await store.query(`insert into ${store.schema}.waiter (task_id) select unnest($1::uuid[])`, [ids]);
}

/** One waiter less for each of these tasks; others may wait for the same. */
export async function removeWaiters(store: Store, ids: readonly TaskId[]): Promise<void> {
  await store.query(
    `delete from ${store.schema}.waiter where id in (
       select distinct on (task_id) id from ${store.schema}.waiter where task_id = any ($1::uuid[]) order by task_id, id)`,
    [ids],
  );
}

/** How these tasks are; those that do not exist are left out. */
export async function readEndings(store: Store, ids: readonly TaskId[]): Promise<TaskEnding[]> {
  return store.query<TaskEnding>(
    `select id::text, state, result, error from ${store.schema}.tasks where id = any ($1::uuid[])`,
    [ids],
  );
}

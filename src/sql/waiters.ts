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

/** Asks to be notified when this task ends. */
export async function addWaiter(store: Store, id: TaskId): Promise<string> {
  const [row] = await store.query<{ id: string }>(
    `insert into ${store.schema}.waiter (task_id) values ($1) returning id`,
    [id],
  );
  return row?.id ?? "";
}

export async function removeWaiter(store: Store, waiterId: string): Promise<void> {
  await store.query(`delete from ${store.schema}.waiter where id = $1`, [waiterId]);
}

export async function readEnding(store: Store, id: TaskId): Promise<TaskEnding | undefined> {
  const [row] = await store.query<TaskEnding>(
    `select id::text, state, result, error from ${store.schema}.tasks where id = $1`,
    [id],
  );
  return row;
}

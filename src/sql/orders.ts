/** What people order done to tasks. */
import type { Store } from "../database/database.ts";
import type { TaskId } from "../task/ids.ts";

export type CancelOutcome = "cancelled" | "cancelling" | "ended" | "unknown";
export type RetryOutcome = "pending" | "due" | "taken" | "held" | "ended" | "unrecorded" | "unknown";
export interface Ordered<Outcome> {
  readonly id: TaskId;
  readonly outcome: Outcome;
}

export async function cancelTasks(
  store: Store,
  ids: readonly TaskId[],
  order: { graceMs: number; reason: string | undefined },
): Promise<Ordered<CancelOutcome>[]> {
  return untilAnswered(ids, (left) =>
    store.query(`select task_id::text as id, outcome from ${store.schema}.cancel_tasks($1::uuid[], $2, $3)`, [
      left,
      order.graceMs,
      order.reason ?? null,
    ]),
  );
}

export async function retryTasks(
  store: Store,
  ids: readonly TaskId[],
  force: boolean,
): Promise<Ordered<RetryOutcome>[]> {
  return untilAnswered(ids, (left) =>
    store.query(`select task_id::text as id, outcome from ${store.schema}.retry_tasks($1::uuid[], $2)`, [left, force]),
  );
}

const MOST_ROUNDS = 20;

/** A task that moves while it is looked for is not answered for; with fresh eyes it is found. */
async function untilAnswered<O>(
  ids: readonly TaskId[],
  ask: (left: readonly TaskId[]) => Promise<Ordered<O>[]>,
): Promise<Ordered<O>[]> {
  const answers: Ordered<O>[] = [];
  let left = ids;
  for (let round = 0; left.length > 0 && round < MOST_ROUNDS; round++) {
    answers.push(...(await ask(left)));
    const answered = new Set(answers.map(({ id }) => id));
    left = left.filter((id) => !answered.has(id));
  }
  return answers;
}

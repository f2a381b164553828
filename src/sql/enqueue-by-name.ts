/** Putting one task in by its name alone: queue and priority come from the definition that workers have stored. */
import type { Store } from "../database/database.ts";

/** The id of the task, or of the one that was there already under the same unique key. */
export async function enqueueByName(
  store: Store,
  task: { name: string; inputJson: string; optionsJson: string },
): Promise<string> {
  const [row] = await store.query<{ id: string }>(
    `select ${store.schema}.enqueue($1, $2::json, $3::jsonb)::text as id`,
    [task.name, task.inputJson, task.optionsJson],
  );
  return row?.id ?? "";
}

/** Whether the workers that are here agree on what their tasks are. */
import type { Store } from "../database/database.ts";

export interface KnownTask {
  readonly name: string;
  /** How many workers that are online or draining have it. */
  readonly workers: number;
  /** How many different settings they have for it. */
  readonly versions: number;
}

export async function readKnownTasks(store: Store): Promise<KnownTask[]> {
  return store.query<KnownTask>(
    `select x.name, count(*)::int as workers, count(distinct x.version)::int as versions
     from ${store.schema}.replica r, unnest(r.tasks, r.versions) as x (name, version)
     where r.status in ('online', 'draining')
     group by x.name order by x.name`,
  );
}

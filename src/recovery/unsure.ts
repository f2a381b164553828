/** Whether it can be said for sure which tasks are stale: while nobody listens, nobody knows which workers are alive. */
import type { Database } from "../database/database.ts";
import { countTasksOf, type StaleFilter } from "../sql/stale-tasks.ts";
import type { ReplicaWithHeart } from "./heart-state.ts";

export interface Unsure {
  /** Nobody has listened since then. */
  readonly since: Date;
  /** How many of the tasks that were asked for are held by workers that nobody has heard since. */
  readonly held: number;
}

/** Null: it is sure. Whoever has chosen the silence (`afterMs`) is told who has been silent for so long, and that is. */
export async function readUnsure(
  { database, replicas }: { database: Database; replicas: readonly ReplicaWithHeart[] },
  afterMs: number | undefined,
  filter: StaleFilter,
): Promise<Unsure | null> {
  const unheard = replicas.filter(({ unheardSince }) => unheardSince !== null);
  const since = unheard[0]?.unheardSince;
  if (!since || afterMs !== undefined) return null;
  const ids = unheard.map(({ id }) => id);
  const held = await countTasksOf(database, ids, filter);
  return held === 0 ? null : { since, held };
}

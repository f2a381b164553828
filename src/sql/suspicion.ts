/** Which tasks were at which crash, and who is cleared of it. */
import type { Store } from "../database/database.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import type { ClaimId, ReplicaId, TaskId } from "../task/ids.ts";

/**
 * Notes the death of a replica, and how many of the tasks that it was running are suspects: counted once, however often its recovery is begun. Undefined:
 * it was running nothing. `sharers`: replicas whose tasks may have caused it as well.
 */
export async function noteCrash(
  store: Store,
  replicaId: ReplicaId,
  sharers: readonly ReplicaId[] = [],
): Promise<{ suspects: number; most: number; withMost: number } | undefined> {
  const [row] = await store.query<{ suspects: number; most: number; withMost: number }>(
    `select suspects, most, with_most as "withMost" from ${store.schema}.note_crash($1, $2)`,
    [replicaId, sharers],
  );
  return row;
}

/** How many of those that this replica is still running have told it to stop. */
export async function countStoppers(store: Store, replicaId: ReplicaId): Promise<number> {
  const [row] = await store.query<{ count: number }>(
    `select count(*)::int as count from ${store.schema}.stoppers_of($1)`,
    [replicaId],
  );
  return row?.count ?? 0;
}

export interface Suspect {
  readonly task: TaskId;
  readonly claim: ClaimId;
  readonly isCharged: boolean;
  readonly isApart: boolean;
}

/** The crashes that these were at are explained. */
export async function clearBystanders(store: Store, convicted: readonly TaskId[]): Promise<void> {
  await store.query(`select ${store.schema}.clear_bystanders($1)`, [convicted]);
}

/**
 * This replica was given up and is here again: nobody is to blame, and what it cost is given back. Returns how long after its
 * death that is; undefined where it had not been declared dead.
 */
export async function forgiveCrash(
  store: Store,
  replicaId: ReplicaId,
  how: "fenced" | "refused",
): Promise<number | undefined> {
  const [row] = await store.query<{ ms: number | null }>(`select ${store.schema}.forgive_crash($1, $2) as ms`, [
    replicaId,
    how,
  ]);
  return row?.ms ?? undefined;
}

export interface QuarantinedTask {
  readonly id: TaskId;
  readonly name: string;
  readonly queue: string;
  readonly attempt: number;
  /** The crashes that it was at. */
  readonly crashes: number;
  readonly endedAt: Date;
  readonly error: ErrorRecord;
  /** What the last of its post-mortems says; null where there is none any more. */
  readonly sentence: string | null;
}

export interface QuarantineFilter {
  readonly name?: string | undefined;
  readonly queue?: string | undefined;
  readonly ids?: readonly string[] | undefined;
}

/** The latest first. */
export async function listQuarantined(
  store: Store,
  filter: QuarantineFilter,
  limit: number,
): Promise<QuarantinedTask[]> {
  return store.query<QuarantinedTask>(
    `select e.task_id::text as id, t.name, t.queue, e.attempt, e.crashes, e.ended_at as "endedAt", e.error,
            (select p.sentence from ${store.schema}.post_mortem p where p.task_id = e.task_id order by p.id desc limit 1) as sentence
     from ${store.schema}.ended e join ${store.schema}.task t on t.id = e.task_id
     where e.state = 'failed' and e.error_code = 'POISONED'
       and ($1::text is null or t.name = $1) and ($2::text is null or t.queue = $2) and ($3::uuid[] is null or e.task_id = any ($3))
     order by e.ended_at desc limit $4`,
    [filter.name ?? null, filter.queue ?? null, filter.ids ?? null, limit],
  );
}

export async function countQuarantined(store: Store): Promise<number> {
  const [row] = await store.query<{ count: number }>(
    `select count(*)::int as count from ${store.schema}.ended e where e.state = 'failed' and e.error_code = 'POISONED'`,
  );
  return row?.count ?? 0;
}

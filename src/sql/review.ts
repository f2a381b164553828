/**
 * Tasks that failed because their worker died, or because the database has forgotten how they ended; and whether somebody has looked at what
 * they left behind.
 */
import type { Store } from "../database/database.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import type { ReplicaId, TaskId } from "../task/ids.ts";

export const MAY_HAVE_HAD_EFFECTS = "e.state = 'failed' and e.error_code in ('WORKER_CRASHED', 'END_FORGOTTEN')";

export interface ReviewTask {
  readonly id: TaskId;
  readonly name: string;
  readonly queue: string;
  readonly attempt: number;
  readonly crashes: number;
  readonly replicaId: ReplicaId | null;
  readonly startedAt: Date | null;
  readonly endedAt: Date;
  readonly error: ErrorRecord;
  /** Null while it needs review. */
  readonly reviewedAt: Date | null;
  readonly note: string | null;
}

export interface ReviewFilter {
  readonly name?: string | undefined;
  readonly queue?: string | undefined;
  readonly ids?: readonly string[] | undefined;
  /** Also those that were reviewed. */
  readonly all?: boolean | undefined;
}

/** The latest first. */
export async function listReviews(store: Store, filter: ReviewFilter, limit: number): Promise<ReviewTask[]> {
  return store.query<ReviewTask>(
    `select e.task_id::text as id, t.name, t.queue, e.attempt, e.crashes, e.replica_id::text as "replicaId", e.started_at as "startedAt",
            e.ended_at as "endedAt", e.error, v.reviewed_at as "reviewedAt", v.note
     from ${store.schema}.ended e
     join ${store.schema}.task t on t.id = e.task_id
     left join ${store.schema}.review v on v.task_id = e.task_id and v.reviewed_at >= e.ended_at
     where ${MAY_HAVE_HAD_EFFECTS} and ($4 or v.task_id is null)
       and ($1::text is null or t.name = $1) and ($2::text is null or t.queue = $2) and ($3::uuid[] is null or e.task_id = any ($3))
     order by e.ended_at desc limit $5`,
    [filter.name ?? null, filter.queue ?? null, filter.ids ?? null, filter.all ?? false, limit],
  );
}

export async function countNeedingReview(store: Store): Promise<number> {
  const [row] = await store.query<{ count: number }>(
    `select count(*)::int as count
     from ${store.schema}.ended e left join ${store.schema}.review v on v.task_id = e.task_id and v.reviewed_at >= e.ended_at
     where ${MAY_HAVE_HAD_EFFECTS} and v.task_id is null`,
  );
  return row?.count ?? 0;
}

/** Those of these tasks that needed review, or were reviewed before: then the note is the new one. Returns them. */
export async function markReviewed(store: Store, ids: readonly TaskId[], note: string | undefined): Promise<TaskId[]> {
  const rows = await store.query<{ id: TaskId }>(
    `insert into ${store.schema}.review (task_id, reviewed_at, note)
     select e.task_id, clock_timestamp(), $2 from ${store.schema}.ended e
     where e.task_id = any ($1) and ${MAY_HAVE_HAD_EFFECTS}
     on conflict (task_id) do update set reviewed_at = excluded.reviewed_at, note = coalesce(excluded.note, review.note)
     returning task_id::text as id`,
    [ids, note ?? null],
  );
  return rows.map((row) => row.id);
}

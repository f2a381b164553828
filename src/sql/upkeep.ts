/** Small things put right without anybody asking. */
import type { Store } from "../database/database.ts";
import type { ClaimOnTask, ReplicaId, TaskId } from "../task/ids.ts";
import { listsOf } from "./claim-lists.ts";

export interface UpkeepReport {
  readonly expired: number;
  readonly unparked: number;
  readonly cancelled: number;
}

/** Undefined: somebody else is at it. */
export async function runUpkeep(store: Store, batch: number): Promise<UpkeepReport | undefined> {
  const [row] = await store.query<UpkeepReport>(`select * from ${store.schema}.run_upkeep($1)`, [batch]);
  return row;
}

export async function findOverdueTasks(store: Store, batch: number): Promise<readonly TaskId[]> {
  const rows = await store.query<{ id: TaskId }>(`select t::text as id from ${store.schema}.overdue_tasks($1) t`, [
    batch,
  ]);
  return rows.map(({ id }) => id);
}

export async function expireTasks(store: Store, tasks: readonly TaskId[]): Promise<number> {
  return countOf(store, `select ${store.schema}.expire_tasks($1) as count`, [tasks]);
}

export interface OverdueCancel extends ClaimOnTask {
  readonly replicaId: ReplicaId;
}

export async function findOverdueCancels(store: Store, batch: number): Promise<readonly OverdueCancel[]> {
  return store.query<OverdueCancel>(
    `select claim_id as "claimId", task_id::text as "taskId", replica_id::text as "replicaId" from ${store.schema}.overdue_cancels($1)`,
    [batch],
  );
}

export async function forceCancels(store: Store, overdue: readonly OverdueCancel[]): Promise<number> {
  return countOf(store, `select ${store.schema}.force_cancels($1, $2, $3) as count`, [
    ...listsOf(overdue),
    [...new Set(overdue.map(({ replicaId }) => replicaId))],
  ]);
}

export async function unparkEveryKind(store: Store, batch: number): Promise<number> {
  return countOf(store, `select ${store.schema}.unpark_every_kind($1) as count`, [batch]);
}

/** One step (see retire_lanes). */
export async function retireLanes(store: Store): Promise<void> {
  await store.query(`select ${store.schema}.retire_lanes()`);
}

export interface Retention {
  readonly maxAgeMs: number | undefined;
  readonly maxCount: number | undefined;
}

const MINUTE_MS = 60_000;

/** An age is kept to within a tenth of it, or to the minute. */
export function purgeEveryMs({ maxAgeMs = Number.POSITIVE_INFINITY }: Retention): number {
  return Math.min(MINUTE_MS, Math.ceil(maxAgeMs / 10));
}

/** A statement of its own: nobody waits for an exclusive key while it is done. */
export async function purgeIfDue(store: Store, retention: Retention, batch: number): Promise<number> {
  return countOf(store, `select ${store.schema}.purge_if_due($1, $2, $3, $4) as count`, [
    ...[retention.maxAgeMs ?? null, retention.maxCount ?? null, purgeEveryMs(retention), batch],
  ]);
}

/** An ended task that leaves now. */
export interface OldTask {
  readonly taskId: TaskId;
  /** As text, with its microseconds. */
  readonly endedAt: string;
}

/** Nobody keeps them locked: another process may have removed some of them by the time that they are. */
export async function findTasksToPurge(store: Store, retention: Retention, batch: number): Promise<readonly OldTask[]> {
  return store.query<OldTask>(
    `select task_id::text as "taskId", to_json(ended_at) #>> '{}' as "endedAt" from ${store.schema}.find_tasks_to_purge($1, $2, $3)`,
    [retention.maxAgeMs ?? null, retention.maxCount ?? null, batch],
  );
}

export async function purgeTasks(store: Store, old: readonly OldTask[]): Promise<number> {
  return countOf(store, `select ${store.schema}.purge_tasks($1, $2) as count`, [
    ...[old.map(({ taskId }) => taskId), old.map(({ endedAt }) => endedAt)],
  ]);
}

/** It is left out for a while. Returns how often it was refused. `toldAs`: the subject of its alert, which ends with its rest. */
export async function restFromPurge(store: Store, taskId: TaskId, toldAs: string): Promise<number> {
  return countOf(store, `select ${store.schema}.rest_from_purge($1, $2) as count`, [taskId, toldAs]);
}

async function countOf(store: Store, text: string, values: readonly unknown[]): Promise<number> {
  const [row] = await store.query<{ count: number }>(text, values);
  return row?.count ?? 0;
}

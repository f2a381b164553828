/** What attempts say of themselves: written while their claim holds, read for as long as their task is on record. */
import type { Store } from "../database/database.ts";
import type { ClaimId, ReplicaId, TaskId } from "../task/ids.ts";
import type { Progress } from "../task/progress.ts";

export interface ReportWrite extends Progress {
  readonly claim: ClaimId;
  readonly task: TaskId;
  /** Its last log lines as JSON text; left out where no line has come since the last write. */
  readonly log?: string | undefined;
  /** The phase or the progress has changed: not only the log. */
  readonly isSign: boolean;
}

/** One statement for all. What belongs to a claim that is lost is passed over. Returns the claims whose report somebody else has locked. */
export async function writeProgress(store: Store, reports: readonly ReportWrite[]): Promise<ClaimId[]> {
  const rows = await store.query<{ claim: ClaimId }>(
    `select write_progress as claim from ${store.schema}.write_progress($1::bigint[], $2::json)`,
    [reports.map(({ claim }) => claim), JSON.stringify(reports)],
  );
  return rows.map(({ claim }) => claim);
}

export interface LogLine {
  /** By the worker's own clock: to be read, never compared with the database's. */
  readonly at: string;
  readonly level: string;
  readonly text: string;
}

/** What an attempt last said of itself. */
export interface ProgressRow {
  readonly claimId: ClaimId;
  readonly phase: string | null;
  readonly details: unknown;
  /** From 0 to 1. */
  readonly share: number | null;
  readonly done: number | null;
  readonly total: number | null;
  readonly note: string | null;
  /** When its phase or progress last changed; null where it has only logged. */
  readonly changedAt: Date | null;
  readonly log: readonly LogLine[] | null;
}

export async function readLastProgress(store: Store, claims: readonly ClaimId[]): Promise<ProgressRow[]> {
  return store.query<ProgressRow>(
    `select claim_id as "claimId", phase, details, share, done, total, note, changed_at as "changedAt", log
     from ${store.schema}.progress where claim_id = any ($1::bigint[]) order by claim_id`,
    [claims],
  );
}

/** A time in which a thread did not turn its loop. */
export interface BlockedLoop {
  readonly replicaId: ReplicaId;
  readonly beganAt: Date;
  /** Null: it never turned again, or has not yet. */
  readonly endedAt: Date | null;
  readonly blockedMs: number;
  /** One line per frame; null where the thread did not answer, as in native code. */
  readonly stack: string | null;
  readonly tasks: readonly { readonly claimId: ClaimId; readonly taskId: TaskId; readonly name: string }[];
}

/** The last blockage of this replica's own loop. */
export async function readLastStack(store: Store, replicaId: ReplicaId): Promise<BlockedLoop | undefined> {
  const [row] = await store.query<BlockedLoop>(
    `select replica_id::text as "replicaId", began_at as "beganAt", ended_at as "endedAt", blocked_ms as "blockedMs", stack, tasks
     from ${store.schema}.blocked_loop where replica_id = $1 and runner_id is null order by id desc limit 1`,
    [replicaId],
  );
  return row;
}

/** Where those of this replica's runners were stuck that never turned their loop again, by the claims that they ran. */
export async function readRunnerStacks(
  store: Store,
  replicaId: ReplicaId,
  claims: readonly ClaimId[],
): Promise<{ claimId: ClaimId; stack: string; isThread: boolean }[]> {
  return store.query(
    `select t."claimId", b.stack, coalesce(n.kind = 'thread', false) as "isThread"
     from ${store.schema}.blocked_loop b left join ${store.schema}.runner n on n.id = b.runner_id, json_to_recordset(b.tasks) as t ("claimId" text)
     where b.replica_id = $1 and b.runner_id is not null and b.ended_at is null and b.stack is not null and t."claimId" = any ($2)
     order by b.id`,
    [replicaId, claims],
  );
}

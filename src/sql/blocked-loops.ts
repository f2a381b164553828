/** What is written about threads that do not turn their loop. */
import type { Store } from "../database/database.ts";
import type { ClaimId, ReplicaId, TaskId } from "../task/ids.ts";
import type { RetryPolicy } from "../task/retry.ts";
import { endingValues, type Outcome } from "./outcomes.ts";

export interface BlockedSight {
  readonly blockedMs: number;
  readonly stack: string | undefined;
  readonly pausedMs: number | undefined;
  readonly message: string;
}

/** The main thread of a replica, or that of a runner of it. */
export interface BlockedThread {
  readonly replicaId: ReplicaId;
  readonly runnerId: string | undefined;
  /** What it is running; undefined: all that its replica runs in no runner. */
  readonly claims: readonly ClaimId[] | undefined;
}

/** Returns the blockage's id, to be named when it is noted again. Raises its alert. */
export async function noteBlockedLoop(
  store: Store,
  { replicaId, runnerId, claims }: BlockedThread,
  id: string | undefined,
  sight: BlockedSight,
): Promise<string | undefined> {
  const { blockedMs, stack, pausedMs, message } = sight;
  const [row] = await store.query<{ id: string }>(
    `select ${store.schema}.note_blocked_loop($1, $2, $3, $4::bigint[], $5, $6, $7, $8) as id`,
    [id ?? null, replicaId, runnerId ?? null, claims ?? null, blockedMs, stack ?? null, pausedMs ?? null, message],
  );
  return row?.id;
}

export async function noteLoopTurned(store: Store, id: string, blockedMs: number): Promise<void> {
  await store.query(`select ${store.schema}.note_loop_turned($1, $2)`, [id, blockedMs]);
}

export interface TimedOutClaim {
  readonly claimId: ClaimId;
  readonly taskId: TaskId;
  readonly failures: number;
  readonly retry: RetryPolicy | null;
}

/** Those of these claims that are still running here, with what their definition says of retries. */
export async function readTimedOut(
  store: Store,
  replicaId: ReplicaId,
  claims: readonly ClaimId[],
): Promise<TimedOutClaim[]> {
  return store.query<TimedOutClaim>(
    `select u.claim_id as "claimId", u.task_id::text as "taskId", u.failures, d.settings -> 'retry' as retry
     from ${store.schema}.running u left join ${store.schema}.definition d on d.name = u.name
     where u.claim_id = any ($2::bigint[]) and u.replica_id = $1 and u.state = 'running' order by u.claim_id`,
    [replicaId, claims],
  );
}

/** False: the replica had been declared dead, or has left. */
export async function endBlockedReplica(
  store: Store,
  replicaId: ReplicaId,
  last: { outcomes: readonly Outcome[]; death: unknown },
): Promise<boolean> {
  const [row] = await store.query<{ ended: boolean }>(
    `select ${store.schema}.end_blocked_replica($1, $2::bigint[], $3::json, $4::json) as ended`,
    [replicaId, ...endingValues(last.outcomes), JSON.stringify(last.death)],
  );
  return row?.ended === true;
}

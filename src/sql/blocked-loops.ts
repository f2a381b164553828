/** What is written about threads that do not turn their loop. */

import type { Store } from "../database/database.ts";
import type { DeathRecord } from "../task/death.ts";
import type { ClaimId, ClaimOnTask, ReplicaId } from "../task/ids.ts";
import { listsOf } from "./claim-lists.ts";
import { endingValues, type Outcome } from "./outcomes.ts";

export interface BlockedSight {
  readonly blockedMs: number;
  readonly stack: string | undefined;
  readonly pausedMs: number | undefined;
  readonly message: string;
  /** Of what runs there: what is past its timeout, and so the first to be suspected. */
  readonly overdue?: readonly ClaimId[] | undefined;
}

/** The main thread of a replica, or that of a runner of it. */
export interface BlockedThread {
  readonly replicaId: ReplicaId;
  readonly runnerId: string | undefined;
  /** What it is running; undefined: all that its replica runs in no runner. */
  readonly claims: readonly ClaimOnTask[] | undefined;
}

/** Returns the blockage's id, to be named when it is noted again. Raises its alert. */
export async function noteBlockedLoop(
  store: Store,
  { replicaId, runnerId, claims }: BlockedThread,
  id: string | undefined,
  sight: BlockedSight,
): Promise<string | undefined> {
  const { blockedMs, stack, pausedMs, message, overdue = [] } = sight;
  const [row] = await store.query<{ id: string }>(
    `select ${store.schema}.note_blocked_loop($1, $2, $3, $4::bigint[], $5::uuid[], $6, $7, $8, $9, $10::bigint[]) as id`,
    [
      ...[id ?? null, replicaId, runnerId ?? null, ...(claims ? listsOf(claims) : [null, null])],
      ...[blockedMs, stack ?? null, pausedMs ?? null, message, overdue],
    ],
  );
  return row?.id;
}

/** Whether this blockage, a row of `blocked_loop`, goes on: its replica and its runner are there, and the loop has not turned. */
export function isBlockageLasting(schema: string, row: string): string {
  return `${row}.ended_at is null
    and exists (select from ${schema}.replica r where r.id = ${row}.replica_id and r.status in ('online', 'draining'))
    and not exists (select from ${schema}.runner n where n.id = ${row}.runner_id and n.ended_at is not null)`;
}

export async function noteLoopTurned(store: Store, id: string, blockedMs: number): Promise<void> {
  await store.query(`select ${store.schema}.note_loop_turned($1, $2)`, [id, blockedMs]);
}

export interface TimedOutClaim extends ClaimOnTask {
  readonly name: string;
  readonly failures: number;
  /** What its definition says. */
  readonly settings: unknown;
}

/** Those of these claims that are still running here, with the settings of their definition. */
export async function readTimedOut(
  store: Store,
  replicaId: ReplicaId,
  claims: readonly ClaimOnTask[],
): Promise<TimedOutClaim[]> {
  return store.query<TimedOutClaim>(
    `select u.claim_id as "claimId", u.task_id::text as "taskId", u.name, u.failures, d.settings
     from ${store.schema}.running u left join ${store.schema}.definition d on d.name = u.name
     where u.replica_id = $1 and u.state = 'running' and (u.claim_id, u.task_id) in (select * from unnest($2::bigint[], $3::uuid[]))
     order by u.claim_id`,
    [replicaId, ...listsOf(claims)],
  );
}

/** False: the replica had been declared dead, or has left. */
export async function endBlockedReplica(
  store: Store,
  replicaId: ReplicaId,
  last: { outcomes: readonly Outcome[]; death: DeathRecord },
): Promise<boolean> {
  const [row] = await store.query<{ ended: boolean }>(
    `select ${store.schema}.end_blocked_replica($1, $2::bigint[], $3::uuid[], $4::json, $5::json) as ended`,
    [replicaId, ...endingValues(last.outcomes).values, JSON.stringify(last.death)],
  );
  return row?.ended === true;
}

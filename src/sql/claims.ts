/** Taking tasks, starting them, and giving them back. */
import type { Database, Store } from "../database/database.ts";
import type { ClaimId, ClaimOnTask, ReplicaId, TaskId } from "../task/ids.ts";
import { listsOf } from "./claim-lists.ts";
import { type ClaimsRead, claimColumns, readClaims } from "./claim-rows.ts";
import { type EndingValues, LOCK_PATIENCE_MS, longResults } from "./outcomes.ts";

export interface ClaimedTask extends ClaimOnTask {
  readonly state: "claimed" | "running";
  readonly name: string;
  readonly queue: string;
  readonly priority: number;
  readonly attempt: number;
  readonly failures: number;
  readonly crashes: number;
  /** At how many crashes it was together with others. */
  readonly suspicion: number;
  readonly createdMs: number;
  readonly input: unknown;
  readonly metadata: unknown;
  readonly exclusiveKey: string | null;
}

/** Where the last search of a lane ended, and the next begins. */
export interface LaneCursor {
  readonly laneId: string;
  /** Exact to the microsecond, hence text, in the form of JSON: it goes back to the database. */
  readonly runAt: string;
  readonly taskId: TaskId;
}

export interface ClaimRequest {
  readonly replicaId: ReplicaId;
  readonly names: readonly string[];
  readonly queues: readonly string[] | undefined;
  readonly room: readonly (number | null)[] | undefined;
  readonly run: number;
  readonly reserve?: number;
  readonly prefetch: number;
  readonly cursors: readonly LaneCursor[];
  /** Where the search of lanes without a cursor begins (see `ClaimsRead`). */
  readonly seenUpTo?: string | undefined;
  /** The lane from which the last search took. The lanes behind it come first now. */
  readonly lastLaneId?: string | undefined;
  /** Ask to be told of tasks in these queues from before the search on. */
  readonly arms?: boolean;
}

/** Where the values of a request go. */
export const CLAIM_PARAMETERS =
  "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, p_reserve => $11, p_seen => $12, p_last_lane => $13";

/** In the order in which they should run. */
export async function claimTasks(database: Database, request: ClaimRequest): Promise<ClaimsRead> {
  const rows = await database.queryLists(
    `select ${claimColumns(database.schema)} from ${database.schema}.claim_tasks(${CLAIM_PARAMETERS})`,
    claimValues(request),
  );
  return readClaims(rows);
}

/** Ends claims, then takes others, in one statement: what the ending ones free can be taken at once. */
export async function endAndClaimTasks(
  database: Database,
  request: ClaimRequest,
  ending: EndingValues,
): Promise<ClaimsRead> {
  const values = [...claimValues(request), ...ending.values];
  const more = longResults(ending, values.length);
  const rows = await database.queryLists(
    `select ${claimColumns(database.schema)} from ${database.schema}.claim_tasks(${CLAIM_PARAMETERS},
       p_ended => ${database.schema}.${ending.ends}($14::bigint[], $15::uuid[], $16::json, array[$1::uuid], true, p_patience_ms => ${LOCK_PATIENCE_MS}${more.argument}))`,
    [...values, ...more.values],
  );
  return readClaims(rows);
}

export function claimValues(request: ClaimRequest): unknown[] {
  return [
    request.replicaId,
    request.names,
    request.queues ?? null,
    request.room ?? null,
    request.run,
    request.prefetch,
    request.cursors.map((cursor) => cursor.laneId),
    request.cursors.map((cursor) => cursor.runAt),
    request.cursors.map((cursor) => cursor.taskId),
    request.arms ?? false,
    request.reserve ?? 0,
    request.seenUpTo ?? null,
    request.lastLaneId ?? null,
  ];
}

/** This replica's claims that it does not know of, because the reply to their claim was lost. */
export async function adoptClaims(
  database: Database,
  replicaId: ReplicaId,
  known: readonly ClaimOnTask[],
): Promise<ClaimedTask[]> {
  const rows = await database.queryLists(
    `select ${claimColumns(database.schema)} from ${database.schema}.adopt_claims($1, $2, $3) order by claim_id`,
    [replicaId, ...listsOf(known)],
  );
  return readClaims(rows).claimed;
}

/** The largest claim id of all earlier epochs. Claims of this epoch have larger ids. Infinity where no epoch has begun yet. */
export async function readLastClaimIdBeforeEpoch(store: Store): Promise<number> {
  const [row] = await store.query<{ last: string }>(
    `select last_claim as last from ${store.schema}.epoch_marker where ${store.schema}.known_epoch() is not null`,
  );
  return row ? Number(row.last) : Number.POSITIVE_INFINITY;
}

export interface Started {
  /** They are running now. */
  readonly started: readonly ClaimId[];
  /** Somebody else keeps their rows locked: they hold, and are not running. */
  readonly locked: readonly ClaimId[];
}

/** Those of these claims that are in neither list are lost. */
export async function startClaims(store: Store, claims: readonly ClaimOnTask[]): Promise<Started> {
  const [row] = await store.query<Started>(
    `select started, locked from ${store.schema}.start_claims($1, $2)`,
    listsOf(claims),
    "often",
  );
  return row as Started;
}

/**
 * The claims among these that were given back, by their owner, which knows that none of them has begun, whatever is on record. The others were to
 * be cancelled, or are lost.
 */
export async function releaseUnbegun(
  store: Store,
  claims: readonly ClaimOnTask[],
  owner: ReplicaId,
): Promise<ClaimId[]> {
  const rows = await store.query<{ claimId: ClaimId }>(
    `select release_claims as "claimId" from ${store.schema}.release_claims($1, $2, $3, true)`,
    [...listsOf(claims), owner],
  );
  return rows.map((row) => row.claimId);
}

/** Every claim that this replica holds, and whether it should be given up. Notes that the replica was heard. */
export async function readOwnClaims(
  store: Store,
  replicaId: ReplicaId,
): Promise<(ClaimOnTask & { isCancelled: boolean; reason: string | null })[]> {
  return store.query(
    `select claim_id as "claimId", task_id::text as "taskId", is_cancelled as "isCancelled", reason from ${store.schema}.own_claims($1)`,
    [replicaId],
    "often",
  );
}

export interface Outlook {
  /** How long until a task of these names is due; undefined where none waits. */
  readonly dueMs: number | undefined;
  /** From where to search the lanes in which something was overlooked. */
  readonly overlooked: readonly LaneCursor[];
}

/** For a worker that found nothing. `seenUpTo`: look also for what is due since before then, which may take long. */
export async function readOutlook(
  store: Store,
  names: readonly string[],
  queues: readonly string[] | undefined,
  seenUpTo?: string,
): Promise<Outlook> {
  const [row] = await store.query<{ ms: string | null; overlooked: { lane: string; at: string }[] | null }>(
    `select ${store.schema}.next_due_ms($1, $2) as ms,
            (select json_agg(json_build_object('lane', lane_id, 'at', run_at)) from ${store.schema}.overlooked($1, $2, $3)) as overlooked`,
    [names, queues ?? null, seenUpTo ?? null],
  );
  const overlooked = row?.overlooked ?? [];
  return {
    dueMs: row?.ms == null ? undefined : Number(row.ms),
    overlooked: overlooked.map(({ lane, at }) => ({ laneId: lane, runAt: at, taskId: BEFORE_ALL_TASKS })),
  };
}

const BEFORE_ALL_TASKS = "00000000-0000-0000-0000-000000000000" as TaskId;

/** Takes claims along to another id of the same process. Returns those that still hold. */
export async function rehomeClaims(
  store: Store,
  from: ReplicaId,
  to: ReplicaId,
  claims: readonly ClaimOnTask[],
): Promise<ClaimId[]> {
  const rows = await store.query<{ claimId: ClaimId }>(
    `select rehome_claims as "claimId" from ${store.schema}.rehome_claims($1, $2, $3, $4)`,
    [from, to, ...listsOf(claims)],
  );
  return rows.map((row) => row.claimId);
}

/** For tests, ours and users': what is still to do, what was done, and the world as it will be after some time. */
import type { Store } from "../database/database.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import type { ReplicaId, TaskId } from "../task/ids.ts";
import type { AttemptOutcome, TaskState } from "../task/states.ts";
import type { TaskDetails } from "./tasks.ts";

export interface DueTask {
  readonly id: TaskId;
  readonly name: string;
  readonly queue: string;
  readonly state: "pending" | "claimed" | "running";
}

export interface EndedAttempt {
  readonly id: TaskId;
  readonly name: string;
  /** 0 for a task that expired before its first. */
  readonly attempt: number;
  readonly outcome: AttemptOutcome;
  readonly result: unknown;
  readonly error: ErrorRecord | null;
}

export type StoredTask = Pick<
  TaskDetails,
  | ("id" | "name" | "queue" | "priority" | "state" | "attempt" | "failures" | "createdAt" | "runAt" | "expiresAt")
  | ("uniqueKey" | "exclusiveKey" | "input" | "metadata" | "result" | "error")
>;

/** What this replica has in hand, and what it may take now. Tasks of paused queues are not due: nobody will start them. */
export async function findDueTasks(
  store: Store,
  replicaId: ReplicaId,
  names: readonly string[],
): Promise<readonly DueTask[]> {
  return store.query<DueTask>(
    `select r.task_id::text as id, r.name, r.queue, 'pending' as state
     from ${store.schema}.ready r left join ${store.schema}.queue q on q.name = r.queue
     where r.name = any ($2) and r.run_at <= now() and q.paused is not true and q.concurrency is distinct from 0
     union all
     select u.task_id::text, u.name, u.queue, u.state from ${store.schema}.running u where u.replica_id = $1`,
    [replicaId, names],
  );
}

/**
 * In the order in which they were claimed: outcomes are written side by side, so that of their endings is no order.
 * Expired tasks had no attempt and no replica; those since that moment are taken, and come last.
 */
export async function listEndedAttempts(
  store: Store,
  drained: { replicaId: ReplicaId; names: readonly string[]; since: Date },
): Promise<readonly EndedAttempt[]> {
  return store.query<EndedAttempt>(
    `select t.id::text, t.name, a.attempt, a.outcome, a.result, a.error
     from (
       select task_id, claim_id, attempt, outcome, result, error
       from ${store.schema}.attempts where replica_id = $1 and ended_at is not null
       union all
       select task_id, claim_id, attempt, state, result, error
       from ${store.schema}.ended where state = 'expired' and ended_at >= $3::timestamptz
     ) a join ${store.schema}.task t on t.id = a.task_id
     where t.name = any ($2)
     order by a.claim_id nulls last, t.id`,
    [drained.replicaId, drained.names, drained.since],
  );
}

/** Oldest first. */
export async function listStoredTasks(
  store: Store,
  filter: { name: string; states: readonly TaskState[] | undefined; queue: string | undefined },
): Promise<readonly StoredTask[]> {
  return store.query<StoredTask>(
    `select id::text, name, queue, priority, state, attempt, failures, created_at as "createdAt", run_at as "runAt",
            expires_at as "expiresAt", unique_key as "uniqueKey", exclusive_key as "exclusiveKey", input, metadata, result, error
     from ${store.schema}.tasks
     where name = $1 and ($2::text[] is null or state = any ($2)) and ($3::text is null or queue = $3)
     order by id`,
    [filter.name, filter.states ?? null, filter.queue ?? null],
  );
}

/**
 * Moves every instant that something waits for, or is counted from, into the past by this much; whoever waits is told.
 * Replicas stay as they are: one that is alive would have been heard all along.
 */
export async function moveIntoPast(tx: Store, ms: number): Promise<void> {
  const columns: Record<string, readonly string[]> = {
    task: ["run_at", "created_at", "expires_at"],
    ready: ["run_at", "expires_at"],
    parked: ["run_at", "expires_at"],
    running: ["run_at", "expires_at", "claimed_at", "started_at", "cancel_requested_at", "cancel_force_at"],
    ended: ["claimed_at", "started_at", "ended_at"],
    attempt: ["claimed_at", "started_at", "ended_at"],
    late: ["arrived_at"],
    rate: ["spent_until", "deferred_until"],
    unique_hold: ["counts_until", "created_at"],
    upkeep: ["purged_at"],
    not_purged: ["rests_until"],
  };
  const moves = Object.entries(columns).map(([table, names]) => {
    const set = names.map((name) => `${name} = ${name} - make_interval(secs => $1::float8 / 1000)`).join(", ");
    return `moved_${table} as (update ${tx.schema}.${table} set ${set})`;
  });
  // One statement, so that nobody sees a world in which only a part has moved.
  await tx.query(`with ${moves.join(", ")} select`, [ms]);
  await tx.query(
    `select ${tx.schema}.ring(array(select distinct queue from ${tx.schema}.ready where run_at <= now() + interval '10 seconds'))`,
  );
}

/** Fails rather than waits for ever where a transaction that was left open still uses the schema. */
export async function dropSchema(tx: Store): Promise<void> {
  await tx.query("set local lock_timeout = '10s'");
  await tx.query(`drop schema if exists ${tx.schema} cascade`);
}

/** Looking tasks up: one with its attempts, or a page of many, newest first. */
import type { Store } from "../database/database.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import type { ClaimId, ReplicaId, TaskId } from "../task/ids.ts";
import type { AttemptOutcome, TaskState } from "../task/states.ts";
import { type ProgressRow, readLastProgress } from "./progress.ts";
import type { RateLimit } from "./queues.ts";
import type { RunnerRow } from "./runners.ts";
import { pageOf, type TaskFilter, type TaskPageRequest } from "./task-filter.ts";

export interface TaskSummary {
  readonly id: TaskId;
  readonly name: string;
  readonly queue: string;
  readonly priority: number;
  readonly state: TaskState;
  /** How many attempts have begun. */
  readonly attempt: number;
  readonly failures: number;
  /** Workers that died of it, as far as that is certain: it was the only one there, or was convicted. */
  readonly crashes: number;
  readonly createdAt: Date;
  readonly runAt: Date;
  readonly claimId: ClaimId | null;
  readonly replicaId: ReplicaId | null;
  readonly claimedAt: Date | null;
  readonly startedAt: Date | null;
  readonly endedAt: Date | null;
  readonly isCancelling: boolean;
  /** Waits until its exclusive key is free. */
  readonly isParked: boolean;
  /** Pending, and no replica that is online knows a task of this name. */
  readonly isUnknown: boolean;
  readonly error: ErrorRecord | null;
}

export interface TaskDetails extends TaskSummary {
  readonly input: unknown;
  readonly metadata: unknown;
  readonly result: unknown;
  readonly uniqueKey: string | null;
  readonly exclusiveKey: string | null;
  readonly rateLimit: (RateLimit & { readonly key: string }) | null;
  readonly expiresAt: Date | null;
  readonly attempts: readonly AttemptRow[];
  /** How many attempts are no longer on record: of a task that is tried for ever, the first 10 stay, and the newest 100 to 150. */
  readonly attemptsDropped: number;
  readonly late: readonly LateRow[];
  /** The thread or process that it is running in; null where that is its worker's own. */
  readonly runner: Pick<RunnerRow, "id" | "kind" | "pid" | "status"> | null;
}

export interface AttemptRow {
  readonly claimId: ClaimId;
  readonly attempt: number;
  readonly replicaId: ReplicaId;
  readonly claimedAt: Date;
  readonly startedAt: Date | null;
  readonly endedAt: Date | null;
  readonly outcome: AttemptOutcome | "claimed" | "running";
  readonly error: ErrorRecord | null;
  /** What it last said of itself; null where it said nothing. */
  readonly progress: ProgressRow | null;
  /** What its worker or runner probably died of; null where it did not end by a death, or nobody has written it down. */
  readonly postMortem: string | null;
}

/** An outcome that came after its claim was lost: refused, and kept here. */
export interface LateRow {
  readonly claimId: ClaimId;
  readonly replicaId: ReplicaId;
  readonly outcome: AttemptOutcome;
  readonly error: ErrorRecord | null;
  readonly arrivedAt: Date;
}

const SUMMARY = (
  schema: string,
) => `t.id::text, t.name, t.queue, t.priority, t.state, t.attempt, t.failures, t.crashes, t.created_at as "createdAt",
  t.run_at as "runAt", t.claim_id as "claimId", t.replica_id::text as "replicaId", t.claimed_at as "claimedAt", t.started_at as "startedAt",
  t.ended_at as "endedAt", t.cancel_requested_at is not null as "isCancelling", t.is_parked as "isParked", t.error,
  t.state = 'pending' and not exists (
    select from ${schema}.replica x where x.status = 'online' and t.name = any (x.tasks)) as "isUnknown"`;

/** Ids are time-ordered, so a page ends at an id and the next begins below it: no page shifts while tasks come in. */
export async function listTasks(store: Store, filter: TaskFilter, page: TaskPageRequest): Promise<TaskSummary[]> {
  const { clauses, values } = pageOf(store.schema, filter, page);
  return store.query<TaskSummary>(`select ${SUMMARY(store.schema)} from ${store.schema}.tasks t ${clauses}`, values);
}

export async function listTaskIds(store: Store, filter: TaskFilter): Promise<TaskId[]> {
  const { clauses, values } = pageOf(store.schema, filter);
  const rows = await store.query<{ id: TaskId }>(`select t.id::text from ${store.schema}.tasks t ${clauses}`, values);
  return rows.map((row) => row.id);
}

export async function showTask(store: Store, id: TaskId): Promise<TaskDetails | undefined> {
  const [task] = await store.query<Omit<TaskDetails, "attempts" | "attemptsDropped" | "late">>(
    `select ${SUMMARY(store.schema)}, t.input, t.metadata, t.result, t.unique_key as "uniqueKey", t.exclusive_key as "exclusiveKey",
            t.expires_at as "expiresAt",
            (select json_build_object('key', k.rate_key, 'limit', k.rate_limit, 'perMs', k.rate_per_ms)
             from ${store.schema}.task k where k.id = t.id and k.rate_key is not null) as "rateLimit",
            (select json_build_object('id', n.id, 'kind', n.kind, 'pid', n.pid, 'status', n.status)
             from ${store.schema}.running u join ${store.schema}.runner n on n.id = u.runner_id where u.task_id = t.id) as runner
     from ${store.schema}.tasks t where t.id = $1`,
    [id],
  );
  if (!task) return undefined;
  const attempts = await store.query<Omit<AttemptRow, "progress">>(
    `select claim_id as "claimId", attempt, replica_id::text as "replicaId", claimed_at as "claimedAt", started_at as "startedAt",
            ended_at as "endedAt", outcome, error,
            (select p.sentence from ${store.schema}.post_mortem p where p.task_id = a.task_id and p.claim_id = a.claim_id
             order by p.id desc limit 1) as "postMortem"
     from ${store.schema}.attempts a where task_id = $1 order by claim_id`,
    [id],
  );
  const late = await store.query<LateRow>(
    `select claim_id as "claimId", replica_id::text as "replicaId", outcome, error, arrived_at as "arrivedAt"
     from ${store.schema}.late where task_id = $1 order by id`,
    [id],
  );
  const claims = attempts.map(({ claimId }) => claimId);
  const progress = new Map((await readLastProgress(store, claims)).map((row) => [row.claimId, row]));
  return {
    ...task,
    attempts: attempts.map((attempt) => ({ ...attempt, progress: progress.get(attempt.claimId) ?? null })),
    attemptsDropped: droppedOf(attempts.map(({ attempt }) => attempt)),
    late,
  };
}

/** Attempts are numbered from 1 on, without a gap. */
function droppedOf(numbers: readonly number[]): number {
  return Math.max(0, ...numbers) - new Set(numbers).size;
}

export async function countByState(store: Store): Promise<Record<string, number>> {
  const rows = await store.query<{ state: string; count: number }>(
    `select 'pending' as state, count(*) from ${store.schema}.pending
     union all select state, count(*) from ${store.schema}.running group by state
     union all select state, count(*) from ${store.schema}.ended group by state`,
  );
  return Object.fromEntries(rows.map((row) => [row.state, Number(row.count)]));
}

/** Everything that explains why a task is where it is, in one look: all of it is true at the same moment. */
import { HEARTS } from "../alert-kinds.ts";
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Store } from "../database/database.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import type { ClaimId, ReplicaId, TaskId } from "../task/ids.ts";
import type { AttemptOutcome, TaskState } from "../task/states.ts";
import { type StoredSettings, storedSettings } from "../task/stored-settings.ts";
import { actingSettings } from "./fleet-settings.ts";
import type { RateLimit } from "./queues.ts";
import type { ReplicaRow, SignsOfLife } from "./replicas.ts";
import type { RunnerRow } from "./runners.ts";

/** Distances in time are counted by the database's clock, so whoever explains needs none. */
export interface TaskFacts {
  readonly id: TaskId;
  readonly name: string;
  readonly queue: string;
  readonly state: TaskState;
  readonly attempt: number;
  readonly failures: number;
  readonly crashes: number;
  readonly claimId: ClaimId | null;
  readonly isParked: boolean;
  readonly dueInMs: number;
  readonly expiresInMs: number | null;
  readonly heldForMs: number | null;
  readonly endedAgoMs: number | null;
  readonly tookMs: number | null;
  readonly error: ErrorRecord | null;
  /** When its cancellation is forced; null where none was asked for. */
  readonly cancelForceInMs: number | null;
  /** Outcomes that came when its claim no longer held, and were refused. */
  readonly late: readonly { readonly outcome: string; readonly count: number }[];
  /** Tasks that are due before it in its queue, counted up to a thousand. */
  readonly ahead: number;
  readonly definition: DefinitionFacts | null;
  /** What its last attempt said of itself; null where it said nothing. */
  readonly progress: ProgressFacts | null;
  /** How long a running attempt has not got on. */
  readonly quietForMs: number | null;
  /** Crashes that it was at together with others; whether it runs apart from other suspects on that account. */
  readonly suspicion: number;
  readonly isApart: boolean;
  /** What its last attempt died of, if it did; never that of an earlier one. */
  readonly postMortem: { readonly id: string; readonly sentence: string } | null;
  readonly key: KeyFacts | null;
  /** Its own rate limit; null where it has none. */
  readonly rate: RateFacts | null;
  readonly queueIs: QueueFacts;
  readonly workers: WorkerFacts;
  readonly last: LastAttempt | null;
  readonly owner: OwnerFacts | null;
  readonly listening: ListeningFacts | null;
  readonly review: { readonly reviewedAgoMs: number; readonly note: string | null } | null;
  /** Those by which recovery acts; null where none are on record. */
  readonly settings: RecoverySettings | null;
}

/** As far as it can be understood. */
export type DefinitionFacts = { readonly [K in keyof StoredSettings]?: StoredSettings[K] | null };

export interface ProgressFacts {
  readonly phase: string | null;
  readonly details: unknown;
  readonly share: number | null;
  readonly note: string | null;
  /** Null where it has only logged. */
  readonly changedAgoMs: number | null;
}

export interface KeyFacts {
  readonly key: string;
  readonly limit: number;
  readonly holders: readonly KeyHolder[];
  /** Parked in the same queue behind the same key, and let go before it. The first of every queue is let go together, so others do not count. */
  readonly ahead: number;
}

export interface RateFacts extends RateLimit {
  readonly key: string;
  /** It is due later than it was enqueued for. */
  readonly isPutOff: boolean;
}

export interface KeyHolder {
  readonly taskId: TaskId;
  readonly name: string;
  readonly state: "claimed" | "running";
  readonly replicaId: ReplicaId;
  readonly ownerStatus: OwnerFacts["status"];
  readonly heldForMs: number;
}

export interface QueueFacts {
  readonly isPaused: boolean;
  /** Why nothing can be claimed from it, where a worker has paused it for that. */
  readonly trouble: string | null;
  readonly concurrency: number | null;
  /** How many count against its limit now. */
  readonly limited: number;
  readonly rateLimit: RateLimit | null;
  /** When its rate allows another; null where it has none. */
  readonly rateInMs: number | null;
}

/** Replicas that are online and were heard of late; of those, the ones that know the task; of those, the ones that work on its queue. */
export interface WorkerFacts {
  readonly online: number;
  readonly knowing: number;
  readonly serving: number;
  /** What the last of these have in hand. */
  readonly inHand: number;
}

export interface LastAttempt {
  readonly outcome: AttemptOutcome;
  readonly attempt: number;
  readonly endedAgoMs: number;
  readonly error: ErrorRecord | null;
}

export interface OwnerFacts extends SignsOfLife {
  readonly replicaId: ReplicaId;
  readonly status: ReplicaRow["status"] | "missing";
  readonly hostname: string | null;
  readonly pid: number | null;
  /** Since its last beat, whether that could be written or not; null where it has no heart. */
  readonly heardAgoMs: number | null;
  /** It was heard, or joined, since the database was started. */
  readonly isOfThisEpoch: boolean;
  readonly diedAgoMs: number | null;
  /** As it was written: see `readDeath`. */
  readonly death: unknown;
  /** The thread or process that it has for this task; null where it runs inline, or has not begun there. */
  readonly runner: RunnerFacts | null;
  /** The event loop that this task depends on, its runner's or else its owner's own; null while it turns. */
  readonly blocked: BlockedFacts | null;
  readonly cameBack: boolean;
  /** How long a handler there may ignore its signal; null where an older version did not say. */
  readonly abortGraceMs: number | null;
  /** How many of those that it is running have told it to stop, and whether this task has. */
  readonly stoppers: number;
  readonly isStoppedByTask: boolean;
  /** What it is running, or of that those who have told it to stop, if any: see suspicion. */
  readonly crowd: { readonly suspects: number; readonly most: number; readonly withMost: number };
}

export interface RunnerFacts extends Pick<RunnerRow, "kind" | "pid" | "status"> {
  readonly heardAgoMs: number;
  /** As of its last beat; null where that does not say. */
  readonly blockedForMs: number | null;
}

export interface BlockedFacts {
  readonly forMs: number;
  readonly isRunner: boolean;
  readonly stack: string | null;
  readonly tasks: readonly { readonly taskId: TaskId; readonly name: string }[];
}

export interface ListeningFacts {
  readonly sweptAgoMs: number;
  readonly hearingForMs: number;
  /** Of the hearts' hold: no other holds a task. */
  readonly heldForMs: number | null;
  readonly isConfirmed: boolean;
  /** The task's owner was the one that swept last. */
  readonly isByOwner: boolean;
}

/** `missedBeats`: a worker that has missed so many of its own beats does not count. */
export async function readTaskFacts(store: Store, id: TaskId, missedBeats: number): Promise<TaskFacts | undefined> {
  const s = store.schema;
  const ms = (interval: string) => `(extract(epoch from ${interval}) * 1000)::float8`;
  const [facts] = await store.query<TaskFacts>(
    `select t.id::text, t.name, t.queue, t.state, t.attempt, t.failures, t.crashes, t.claim_id as "claimId", t.is_parked as "isParked", t.error,
            ${ms("t.run_at - c.now")} as "dueInMs", ${ms("t.expires_at - c.now")} as "expiresInMs",
            ${ms("c.now - coalesce(u.started_at, u.claimed_at)")} as "heldForMs", ${ms("c.now - t.ended_at")} as "endedAgoMs",
            ${ms("date_trunc('milliseconds', t.ended_at) - date_trunc('milliseconds', t.started_at)")} as "tookMs", ${ms("u.cancel_force_at - c.now")} as "cancelForceInMs",
            (select coalesce(json_agg(json_build_object('outcome', x.outcome, 'count', x.count) order by x.outcome), '[]')
             from (select outcome, count(*) from ${s}.late where task_id = t.id group by outcome) x) as late,
            (select count(*)::int from (
               select from ${s}.ready x where t.state = 'pending' and x.queue = t.queue and x.run_at <= c.now
                 and (x.priority, x.run_at, x.task_id) < (t.priority, t.run_at, t.id) limit 1000) a) as ahead,
            (select d.settings from ${s}.definition d where d.name = t.name) as definition,
            (select json_build_object('phase', p.phase, 'details', p.details, 'share', p.share, 'note', p.note, 'changedAgoMs', ${ms("c.now - p.changed_at")})
             from ${s}.progress p where p.claim_id = t.claim_id) as progress,
            case when u.state = 'running' then ${s}.quiet_ms(
              (select p.changed_at from ${s}.progress p where p.claim_id = u.claim_id), u.started_at, l.hearing_since, c.now) end as "quietForMs",
            (select count(*)::int from ${s}.suspicion x where x.task_id = t.id and not x.is_charged) as suspicion,
            coalesce((select bool_or(x.is_apart) from ${s}.suspicion x where x.task_id = t.id), false) as "isApart",
            (select json_build_object('id', x.id::text, 'sentence', x.sentence)
             from ${s}.post_mortem x where x.task_id = t.id
               and x.claim_id = coalesce(t.claim_id, (select max(a.claim_id) from ${s}.attempt a where a.task_id = t.id))
             order by x.id desc limit 1) as "postMortem",
            (select json_build_object('key', k.exclusive_key, 'limit', k.exclusive_limit,
               'holders', coalesce((select json_agg(json_build_object('taskId', x.task_id, 'name', x.name, 'state', x.state,
                   'replicaId', x.replica_id, 'ownerStatus', coalesce(xr.status, 'missing'),
                   'heldForMs', ${ms("c.now - coalesce(x.started_at, x.claimed_at)")}) order by x.claim_id)
                 from ${s}.running x left join ${s}.replica xr on xr.id = x.replica_id
                 where x.exclusive_key = k.exclusive_key and x.task_id <> t.id), '[]'),
               'ahead', (select count(*) from ${s}.parked x where t.is_parked and x.exclusive_key = k.exclusive_key and x.queue = t.queue
                 and (x.priority, x.run_at, x.task_id) < (t.priority, t.run_at, t.id)))
             from ${s}.task k where k.id = t.id and k.exclusive_key is not null) as key,
            (select json_build_object('key', k.rate_key, 'limit', k.rate_limit, 'perMs', k.rate_per_ms, 'isPutOff', t.run_at > k.run_at)
             from ${s}.task k where k.id = t.id and k.rate_key is not null) as rate,
            json_build_object('isPaused', coalesce(q.paused, false), 'trouble', q.trouble, 'concurrency', q.concurrency,
              'limited', (select count(*) from ${s}.running x where x.queue = t.queue and x.limited),
              'rateLimit', case when q.rate_limit is not null then json_build_object('limit', q.rate_limit, 'perMs', q.rate_per_ms) end,
              'rateInMs', case when q.rate_limit is not null then ${ms(`${s}.next_in_rate(t.queue, q.rate_limit, q.rate_per_ms) - c.now`)} end) as "queueIs",
            (select json_build_object('online', count(*), 'knowing', count(*) filter (where t.name = any (x.tasks)),
               'serving', count(*) filter (where t.name = any (x.tasks) and (x.queues is null or t.queue = any (x.queues))),
               'inHand', coalesce(sum((select count(*) from ${s}.running y where y.replica_id = x.id))
                 filter (where t.name = any (x.tasks) and (x.queues is null or t.queue = any (x.queues))), 0))
             from ${s}.replica x left join ${s}.heart xh on xh.replica_id = x.id
             where x.status = 'online' and coalesce(${s}.silent_ms(xh, x.started_at, l) < $2::float8 * xh.interval_ms, true)) as workers,
            (select json_build_object('outcome', a.outcome, 'attempt', a.attempt, 'error', a.error, 'endedAgoMs', ${ms("c.now - a.ended_at")})
             from ${s}.attempt a where a.task_id = t.id order by a.claim_id desc limit 1) as last,
            case when u.claim_id is not null then json_build_object(
              'replicaId', u.replica_id, 'status', coalesce(r.status, 'missing'), 'hostname', r.hostname, 'pid', r.pid,
              'heardAgoMs', ${ms("c.now - h.beat_at")}, 'silentForMs', ${s}.silent_ms(h, r.started_at, l),
              'hasSession', ${s}.session_counts(h, l), 'isOfThisEpoch', coalesce(h.epoch = l.epoch, false),
              'holdsSession', coalesce(h.session_key = any (${s}.held_sessions()), false), 'sessionFreeForMs', ${s}.session_free_ms(h, l, c.now),
              'promiseMs', h.promise_ms, 'sessionPromiseMs', h.session_promise_ms, 'intervalMs', h.interval_ms, 'vitals', ${s}.vitals_of(h.signs),
              'diedAgoMs', ${ms("c.now - r.died_at")}, 'death', r.death,
              'runner', (select json_build_object('kind', n.kind, 'pid', n.pid, 'status', n.status, 'heardAgoMs', ${ms("c.now - n.beat_at")},
                  'blockedForMs', n.vitals -> 'blockedForMs')
                from ${s}.runner n where n.id = u.runner_id),
              'blocked', (select json_build_object('forMs', ${ms("c.now - b.began_at")}, 'isRunner', b.runner_id is not null, 'stack', b.stack, 'tasks', b.tasks)
                from ${s}.blocked_loop b
                where b.replica_id = r.id and b.ended_at is null and r.status in ('online', 'draining') and (b.runner_id = u.runner_id or b.runner_id is null)
                order by b.runner_id is null, b.id desc limit 1),
              'cameBack', r.came_back_at is not null, 'abortGraceMs', r.abort_grace_ms,
              'stoppers', (select count(*) from ${s}.stoppers_of(u.replica_id)),
              'isStoppedByTask', coalesce(u.claim_id = any (r.stopped_by), false),
              'crowd', (select json_build_object('suspects', w.suspects, 'most', w.most, 'withMost', w.with_most)
                        from ${s}.crowd_of(u.replica_id) w)) end as owner,
            case when l.epoch is not null then json_build_object('sweptAgoMs', ${ms(`c.now - ${s}.last_swept_at(l)`)},
              'hearingForMs', ${ms("c.now - l.hearing_since")}, 'heldForMs', ${ms("c.now - o.since")},
              'isConfirmed', o.confirmed_at is not null, 'isByOwner', coalesce(l.swept_by = u.replica_id, false)) end as listening,
            (select json_build_object('reviewedAgoMs', ${ms("c.now - v.reviewed_at")}, 'note', v.note)
             from ${s}.review v where v.task_id = t.id and v.reviewed_at >= t.ended_at) as review,
            (${actingSettings(s)}) as settings
     from (select clock_timestamp() as now) c
     join ${s}.tasks t on t.id = $1
     left join ${s}.running u on u.task_id = t.id
     left join ${s}.replica r on r.id = u.replica_id
     left join ${s}.heart h on h.replica_id = u.replica_id
     left join ${s}.queue q on q.name = t.queue
     left join ${s}.listening_now() l on true
     left join ${s}.hold o on o.source = '${HEARTS}' and ${s}.hold_lasts(o)`,
    [id, missedBeats],
  );
  return facts && { ...facts, definition: facts.definition && storedSettings(facts.definition) };
}

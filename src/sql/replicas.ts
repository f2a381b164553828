/** Replicas, and what they know how to run. */
import type { Store } from "../database/database.ts";
import type { ClaimOnTask, ReplicaId } from "../task/ids.ts";
import { settingsRecord, type TaskSettings } from "../task/settings.ts";
import { listsOf } from "./claim-lists.ts";
import type { HeartPromise } from "./hearts.ts";

/** What the database knows of a replica's heart at this moment. */
export interface SignsOfLife {
  /** How long its heart has not been heard, counted only while it could be. Null where nobody has ever listened. */
  readonly silentForMs: number | null;
  /** Its heart took a session lock in this epoch, which would tell of its end… */
  readonly hasSession: boolean;
  /** …and holds it at this moment. */
  readonly holdsSession: boolean;
  /** How long reapers have seen that lock free; null where it is held, or proves nothing. */
  readonly sessionFreeForMs: number | null;
  readonly promiseMs: number | null;
  readonly sessionPromiseMs: number | null;
  /** How often its heart beats. */
  readonly intervalMs: number | null;
  readonly vitals: Readonly<Record<string, number>> | null;
}

export interface ReplicaRow extends SignsOfLife {
  readonly id: ReplicaId;
  readonly hostname: string;
  readonly pid: number;
  readonly version: string;
  /** As it is on record. Online, or draining, means nothing while nobody listens: see `unheardSince`. */
  readonly status: "online" | "draining" | "offline" | "dead";
  /** Nobody has listened since then, so that nobody knows whether it is alive. Null while somebody listens, and of one that is gone. */
  readonly unheardSince: Date | null;
  readonly machineId: string | null;
  readonly startedAt: Date;
  /** When it last gave a sign: a beat, or a word about itself. */
  readonly seenAt: Date;
  readonly diedAt: Date | null;
  readonly death: Record<string, unknown> | null;
  readonly tasks: string[];
  readonly queues: string[] | null;
  readonly claimed: number;
  readonly running: number;
}

/** Together with its heart: what it claims before its first beat is not without an owner that could be missed. */
export async function registerReplica(
  store: Store,
  replica: {
    id: ReplicaId;
    machineId: string;
    hostname: string;
    pid: number;
    version: string;
    tasks: readonly string[];
    /** A mark of the settings of each task, in the same order. */
    versions?: readonly string[] | undefined;
    queues: readonly string[] | undefined;
    recovery: unknown;
    abortGraceMs?: number | undefined;
    promise: HeartPromise;
    /** The epoch of a session that has taken its lock already. */
    sessionEpoch?: string | undefined;
  },
): Promise<void> {
  await store.query(
    `with machine as (
       insert into ${store.schema}.machine (id, hostname) values ($7, $2)
       on conflict (id) do update set hostname = excluded.hostname, joined_at = excluded.joined_at
     ), heart as (
       insert into ${store.schema}.heart (replica_id, beat_at, epoch, interval_ms, promise_ms, session_promise_ms, session_key, session_epoch)
       values ($1, now(), ${store.schema}.joining_epoch(), $9, $10, $11, ${store.schema}.session_key($1), $12)
       on conflict (replica_id) do update set beat_at = now() where not heart.is_dead
     )
     insert into ${store.schema}.replica (id, hostname, pid, version, tasks, queues, machine_id, recovery, versions, abort_grace_ms)
     values ($1, $2, $3, $4, $5, $6, $7, $8::json, $13, $14)
     on conflict (id) do nothing`,
    [
      replica.id,
      replica.hostname,
      replica.pid,
      replica.version,
      replica.tasks,
      replica.queues ?? null,
      replica.machineId,
      JSON.stringify(replica.recovery),
      replica.promise.intervalMs,
      replica.promise.promiseMs,
      replica.promise.sessionPromiseMs,
      replica.sessionEpoch ?? null,
      replica.versions ?? null,
      replica.abortGraceMs ?? null,
    ],
  );
}

/**
 * Of one that is alive: what is on record of a dead one stays as it is. `stoppedBy`: those of its claims whose tasks have told it to stop.
 */
export async function setReplicaStatus(
  store: Store,
  id: ReplicaId,
  status: ReplicaRow["status"],
  stoppedBy: readonly ClaimOnTask[] = [],
): Promise<void> {
  const s = store.schema;
  if (stoppedBy.length === 0) {
    await store.query(
      `update ${s}.replica set status = $2, seen_at = now() where id = $1 and status in ('online', 'draining')`,
      [id, status],
    );
    return;
  }
  await store.query(
    `update ${s}.replica set status = $2, seen_at = now(), stopped_by = array(
       select u.claim_id from ${s}.running u
       where u.replica_id = $1 and (u.claim_id, u.task_id) in (select * from unnest($3::bigint[], $4::uuid[])))
     where id = $1 and status in ('online', 'draining')`,
    [id, status, ...listsOf(stoppedBy)],
  );
}

/** Those of these replicas that were declared dead. */
export async function findDead(store: Store, ids: readonly ReplicaId[]): Promise<ReplicaId[]> {
  const rows = await store.query<{ id: ReplicaId }>(
    `select id::text as id from ${store.schema}.replica where id = any ($1) and status = 'dead'`,
    [ids],
  );
  return rows.map(({ id }) => id);
}

/** `patienceMs`: sweeps that are further apart have stopped. */
export async function listReplicas(store: Store, patienceMs: number): Promise<ReplicaRow[]> {
  return store.query<ReplicaRow>(
    `select r.id::text, r.hostname, r.pid, r.version, r.status, r.machine_id as "machineId", r.started_at as "startedAt",
            greatest(h.beat_at, r.seen_at) as "seenAt", ${store.schema}.silent_ms(h, r.started_at, l) as "silentForMs",
            ${store.schema}.session_counts(h, l) as "hasSession", coalesce(h.session_key = any (k.held), false) as "holdsSession",
            ${store.schema}.session_free_ms(h, l) as "sessionFreeForMs",
            h.promise_ms as "promiseMs", h.session_promise_ms as "sessionPromiseMs", h.interval_ms as "intervalMs", ${store.schema}.vitals_of(h.signs) as vitals, r.died_at as "diedAt", r.death,
            r.tasks, r.queues,
            case when r.status in ('online', 'draining') and coalesce(k.swept_at, r.started_at) < clock_timestamp() - make_interval(secs => $1::float8 / 1000)
              then coalesce(k.swept_at, r.started_at) end as "unheardSince",
            (select count(*)::int from ${store.schema}.running u where u.replica_id = r.id and u.state = 'claimed') as claimed,
            (select count(*)::int from ${store.schema}.running u where u.replica_id = r.id and u.state = 'running') as running
     from (select ${store.schema}.held_sessions() as held, (select ${store.schema}.last_swept_at(l) from ${store.schema}.listening l) as swept_at) k
     cross join ${store.schema}.replica r
     left join ${store.schema}.heart h on h.replica_id = r.id
     left join ${store.schema}.listening_now() l on true
     order by r.started_at`,
    [patienceMs],
  );
}

/** The definitions that workers run by, for callers in SQL and for those who recover a task without having its code. */
export async function saveDefinitions(store: Store, definitions: readonly TaskSettings[]): Promise<void> {
  await store.query(
    `insert into ${store.schema}.definition (name, queue, priority, run_in, stalled_after_ms, settings)
     select name, queue, priority, "runIn", "stalledAfterMs", settings::json
     from json_to_recordset($1::json) as x (name text, queue text, priority smallint, "runIn" text, "stalledAfterMs" bigint, settings text)
     order by name
     on conflict (name) do update
     set queue = excluded.queue, priority = excluded.priority, run_in = excluded.run_in, stalled_after_ms = excluded.stalled_after_ms,
         settings = excluded.settings, seen_at = now(),
         changed_at = case when definition.settings::text = excluded.settings::text then definition.changed_at else now() end
     where definition.settings::text <> excluded.settings::text or definition.seen_at < now() - interval '1 day'`,
    [
      JSON.stringify(
        definitions.map((settings) => ({ ...settings, settings: JSON.stringify(settingsRecord(settings)) })),
      ),
    ],
  );
}

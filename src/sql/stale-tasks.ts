/** Unfinished tasks and how long their owners have been silent. */
import type { Store } from "../database/database.ts";
import type { ClaimId, ReplicaId, TaskId } from "../task/ids.ts";

export interface StaleTask {
  readonly id: TaskId;
  readonly claimId: ClaimId;
  readonly name: string;
  readonly queue: string;
  readonly state: "claimed" | "running";
  readonly attempt: number;
  readonly crashes: number;
  readonly owner: ReplicaId;
  readonly hostname: string | null;
  /** "missing" where the owner is not on record at all. */
  readonly ownerStatus: "online" | "draining" | "offline" | "dead" | "missing";
  /** Null where the owner has no heart that could be heard: it counts as silent for ever. */
  readonly silentForMs: number | null;
}

export interface StaleFilter {
  readonly state?: "claimed" | "running" | undefined;
  readonly name?: string | undefined;
  readonly queue?: string | undefined;
  readonly replicaId?: string | undefined;
  readonly ids?: readonly string[] | undefined;
}

/** Those whose owner is not alive, or has been silent for longer than the age of their state. Longest silence first. */
export async function findStaleTasks(
  store: Store,
  ages: { claimedMs: number; runningMs: number },
  filter: StaleFilter,
): Promise<StaleTask[]> {
  return store.query<StaleTask>(
    `select * from (
       select u.task_id::text as id, u.claim_id as "claimId", u.name, u.queue, u.state, u.attempt, u.crashes, u.replica_id::text as owner, r.hostname,
              coalesce(r.status, 'missing') as "ownerStatus", ${store.schema}.silent_ms(h, r.started_at, l) as "silentForMs"
       from ${store.schema}.running u
       left join ${store.schema}.replica r on r.id = u.replica_id
       left join ${store.schema}.heart h on h.replica_id = u.replica_id
       left join ${store.schema}.listening_now() l on true
       where ($3::text is null or u.state = $3) and ($4::text is null or u.name = $4) and ($5::text is null or u.queue = $5)
         and ($6::uuid is null or u.replica_id = $6) and ($7::uuid[] is null or u.task_id = any ($7))
     ) t
     where t."ownerStatus" in ('dead', 'offline', 'missing') or t."silentForMs" is null
        or t."silentForMs" > case t.state when 'claimed' then $1::float8 else $2::float8 end
     order by t."silentForMs" desc nulls first, t."claimId"`,
    [
      ages.claimedMs,
      ages.runningMs,
      filter.state ?? null,
      filter.name ?? null,
      filter.queue ?? null,
      filter.replicaId ?? null,
      filter.ids ?? null,
    ],
  );
}

export interface MachineRow {
  readonly id: string;
  readonly hostname: string;
  /** Online while one of its replicas is: looked up, never stored, so it cannot go out of date. */
  readonly isOnline: boolean;
  readonly replicas: number;
  readonly online: number;
  readonly running: number;
  readonly lastSeenAt: Date | null;
}

export async function listMachines(store: Store): Promise<MachineRow[]> {
  return store.query<MachineRow>(
    `select m.id, m.hostname, coalesce(bool_or(r.status in ('online', 'draining')), false) as "isOnline", count(r.id)::int as replicas,
            (count(r.id) filter (where r.status in ('online', 'draining')))::int as online,
            coalesce(sum((select count(*) from ${store.schema}.running u where u.replica_id = r.id)), 0)::int as running,
            max(coalesce(h.beat_at, r.seen_at)) as "lastSeenAt"
     from ${store.schema}.machine m
     left join ${store.schema}.replica r on r.machine_id = m.id
     left join ${store.schema}.heart h on h.replica_id = r.id
     group by m.id, m.hostname order by m.hostname, m.id`,
  );
}

export interface Listening {
  readonly hearingSince: Date;
  readonly sweptAt: Date;
  readonly sweptBy: ReplicaId | null;
  readonly sweepMs: number | null;
  readonly sweptAgoMs: number;
  readonly heldSince: Date | null;
}

/** Undefined where no reaper has ever listened. */
export async function readListening(store: Store): Promise<Listening | undefined> {
  const [row] = await store.query<Listening>(
    `select hearing_since as "hearingSince", swept_at as "sweptAt", swept_by::text as "sweptBy", sweep_ms as "sweepMs",
            (extract(epoch from clock_timestamp() - swept_at) * 1000)::float8 as "sweptAgoMs", held_since as "heldSince"
     from ${store.schema}.listening`,
  );
  return row;
}

export interface AlertRow {
  readonly id: string;
  readonly kind: string;
  readonly subject: string;
  readonly message: string;
  readonly raisedAt: Date;
  readonly resolvedAt: Date | null;
}

export async function listAlerts(store: Store, options: { onlyOpen: boolean; limit: number }): Promise<AlertRow[]> {
  return store.query<AlertRow>(
    `select id, kind, subject, message, raised_at as "raisedAt", resolved_at as "resolvedAt" from ${store.schema}.alert
     where not $1 or resolved_at is null order by id desc limit $2`,
    [options.onlyOpen, options.limit],
  );
}

/** Unfinished tasks, their owners, and how long those have been silent. */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Store } from "../database/database.ts";
import type { ClaimId, ReplicaId, TaskId } from "../task/ids.ts";
import { ARE_SETTINGS } from "./fleet-settings.ts";
import type { SignsOfLife } from "./replicas.ts";

export interface UnfinishedTask {
  readonly id: TaskId;
  readonly claimId: ClaimId;
  readonly name: string;
  readonly queue: string;
  readonly state: "claimed" | "running";
  readonly attempt: number;
  readonly crashes: number;
  readonly owner: ReplicaId;
}

export interface OwnerSigns extends Omit<SignsOfLife, "vitals"> {
  readonly owner: ReplicaId;
  readonly hostname: string | null;
  /** "missing" where the owner is not on record at all. */
  readonly ownerStatus: "online" | "draining" | "offline" | "dead" | "missing";
  /** Its last beat, exact to the microsecond, hence text: it goes back to the database. Null where it has no heart. */
  readonly beatAt: string | null;
  /** Those by which it works; null where none are on record. */
  readonly settings: RecoverySettings | null;
}

export interface StaleFilter {
  readonly state?: "claimed" | "running" | undefined;
  readonly name?: string | undefined;
  readonly queue?: string | undefined;
  readonly replicaId?: string | undefined;
  readonly ids?: readonly string[] | undefined;
}

const FILTER = `($1::text is null or u.state = $1) and ($2::text is null or u.name = $2) and ($3::text is null or u.queue = $3)
  and ($4::uuid is null or u.replica_id = $4) and ($5::uuid[] is null or u.task_id = any ($5))`;

const valuesOf = ({ state, name, queue, replicaId, ids }: StaleFilter) => [
  ...[state ?? null, name ?? null, queue ?? null, replicaId ?? null],
  ids ?? null,
];

/** Whoever has such tasks, alive or not, with what is known of its heart at this moment. */
export async function readOwners(store: Store, filter: StaleFilter): Promise<OwnerSigns[]> {
  const s = store.schema;
  return store.query<OwnerSigns>(
    `select o.replica_id::text as owner, r.hostname, coalesce(r.status, 'missing') as "ownerStatus", case when ${ARE_SETTINGS} then r.recovery end as settings,
            ${s}.silent_ms(h, r.started_at, l) as "silentForMs", ${s}.session_counts(h, l) as "hasSession",
            coalesce(h.session_key = any (k.held), false) as "holdsSession",
            ${s}.session_free_ms(h, l) as "sessionFreeForMs",
            h.promise_ms as "promiseMs", h.session_promise_ms as "sessionPromiseMs", h.interval_ms as "intervalMs",
            to_json(h.beat_at) #>> '{}' as "beatAt"
     from (select distinct u.replica_id from ${s}.running u where ${FILTER}) o
     cross join (select ${s}.held_sessions() as held) k
     left join ${s}.replica r on r.id = o.replica_id
     left join ${s}.heart h on h.replica_id = o.replica_id
     left join ${s}.listening_now() l on true`,
    valuesOf(filter),
  );
}

/** Whether the owner's last beat is still that one. */
export async function isUnheardSince(store: Store, owner: ReplicaId, beatAt: string | null): Promise<boolean> {
  const later = await store.query(
    `select from ${store.schema}.heart where replica_id = $1 and beat_at > $2::timestamptz`,
    [owner, beatAt],
  );
  return later.length === 0;
}

/** How many of such tasks these owners have. */
export async function countTasksOf(store: Store, owners: readonly ReplicaId[], filter: StaleFilter): Promise<number> {
  const [row] = await store.query<{ count: number }>(
    `select count(*)::int as count from ${store.schema}.running u where u.replica_id = any ($6::uuid[]) and ${FILTER}`,
    [...valuesOf(filter), owners],
  );
  return row?.count ?? 0;
}

/** What these owners have, each in one of the states that are named for it. */
export async function readTasksOf(
  store: Store,
  owners: readonly { owner: ReplicaId; state: "claimed" | "running" }[],
  filter: StaleFilter,
): Promise<UnfinishedTask[]> {
  return store.query<UnfinishedTask>(
    `select u.task_id::text as id, u.claim_id as "claimId", u.name, u.queue, u.state, u.attempt, u.crashes, u.replica_id::text as owner
     from json_to_recordset($6::json) as o (owner uuid, state text)
     join ${store.schema}.running u on u.replica_id = o.owner and u.state = o.state
     where ${FILTER}
     order by u.claim_id`,
    [...valuesOf(filter), JSON.stringify(owners)],
  );
}

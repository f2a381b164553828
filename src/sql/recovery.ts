/** Finding the tasks of owners that are not alive, and the state that reapers share. */
import type { Store } from "../database/database.ts";
import type { ClaimId, ReplicaId, TaskId } from "../task/ids.ts";
import { type Hold, holdsAsJson } from "./holds.ts";

export interface AbsentOwner {
  readonly replicaId: ReplicaId;
  readonly status: "dead" | "offline" | "missing";
  readonly hostname: string | null;
  readonly machineId: string | null;
  /** As it was written: see `readDeath`. */
  readonly death: unknown;
  /** Under another id: it was not dead after all. */
  readonly cameBack: boolean;
}

/** Every owner of unfinished tasks that is dead, has left, or is not on record. */
export async function findAbsentOwners(store: Store): Promise<AbsentOwner[]> {
  return store.query<AbsentOwner>(
    `select o.replica_id::text as "replicaId", o.status, r.hostname, r.machine_id as "machineId", r.death,
            r.came_back_at is not null as "cameBack"
     from ${store.schema}.absent_owners() o left join ${store.schema}.replica r on r.id = o.replica_id`,
  );
}

export interface OwnedClaim {
  readonly claimId: ClaimId;
  readonly taskId: TaskId;
  readonly replicaId: ReplicaId;
  readonly state: "claimed" | "running";
  readonly name: string;
  readonly attempt: number;
  readonly crashes: number;
  /** Crashes that it was at together with others. */
  readonly suspicion: number;
  readonly isCancelled: boolean;
  readonly cancelReason: string | null;
  /** It has told its replica to stop. */
  readonly isStopper: boolean;
  /** What its definition says. */
  readonly settings: unknown;
}

/** What this replica holds, with the settings of its definition, where that is on record. */
export async function readClaimsOf(
  store: Store,
  replicaId: ReplicaId,
  page: { after: ClaimId | undefined; limit: number },
): Promise<OwnedClaim[]> {
  return store.query<OwnedClaim>(
    `with rules as materialized (
       select name, settings from ${store.schema}.definition
     )
     select u.claim_id as "claimId", u.task_id::text as "taskId", u.replica_id::text as "replicaId", u.state, u.name, u.attempt, u.crashes,
            u.cancel_requested_at is not null as "isCancelled", u.cancel_reason as "cancelReason",
            d.settings, coalesce(u.claim_id = any ((select r.stopped_by from ${store.schema}.replica r where r.id = u.replica_id)::bigint[]), false) as "isStopper",
            (select count(*)::int from ${store.schema}.suspicion s
             where s.task_id = u.task_id and not s.is_charged and s.replica_id <> u.replica_id) as suspicion
     from ${store.schema}.running u left join rules d on d.name = u.name
     where u.replica_id = $1 and u.claim_id > $2
     order by u.claim_id limit $3`,
    [replicaId, page.after ?? "0", page.limit],
  );
}

export interface Listening {
  readonly hearingSince: Date;
  readonly sweptAt: Date;
  readonly sweptBy: ReplicaId | null;
  readonly sweepMs: number | null;
  readonly sweptAgoMs: number;
  /** Sources whose deaths are held back, the oldest hold first. Mostly there are none. */
  readonly holds: readonly Hold[];
}

/** When somebody listened last, and no more: whoever says that sweeps have stopped must not wait for what may have stopped them. */
export async function readLastSweep(store: Store): Promise<Pick<Listening, "sweptAgoMs" | "sweptBy"> | undefined> {
  const [row] = await store.query<Pick<Listening, "sweptAgoMs" | "sweptBy">>(
    `select swept_by::text as "sweptBy", (extract(epoch from clock_timestamp() - ${store.schema}.last_swept_at(l)) * 1000)::float8 as "sweptAgoMs"
     from ${store.schema}.listening l`,
  );
  return row;
}

/** Undefined where no reaper has ever listened. */
export async function readListening(store: Store): Promise<Listening | undefined> {
  const [row] = await store.query<Listening>(
    `select hearing_since as "hearingSince", s.at as "sweptAt", swept_by::text as "sweptBy",
            (select t.took_ms from ${store.schema}.turn t where t.service = 'sweep') as "sweepMs",
            (extract(epoch from clock_timestamp() - s.at) * 1000)::float8 as "sweptAgoMs", ${holdsAsJson(store.schema)} as holds
     from ${store.schema}.listening l cross join lateral (select ${store.schema}.last_swept_at(l) as at) s`,
  );
  return row && { ...row, holds: row.holds.map((hold) => ({ ...hold, since: new Date(hold.since) })) };
}

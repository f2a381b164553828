/** Finding the tasks of owners that are not alive, and the state that reapers share. */
import type { Store } from "../database/database.ts";
import type { ClaimId, ReplicaId, TaskId } from "../task/ids.ts";

export interface AbsentOwner {
  readonly replicaId: ReplicaId;
  readonly status: "dead" | "offline" | "missing";
  readonly hostname: string | null;
  readonly machineId: string | null;
  readonly death: Record<string, unknown> | null;
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
            d.settings,
            (select count(*)::int from ${store.schema}.suspicion s
             where s.task_id = u.task_id and not s.is_charged and s.replica_id <> u.replica_id) as suspicion
     from ${store.schema}.running u left join rules d on d.name = u.name
     where u.replica_id = $1 and u.claim_id > $2
     order by u.claim_id limit $3`,
    [replicaId, page.after ?? "0", page.limit],
  );
}

/** A hold on recovery, remembered for whoever is the reaper then. Returns how long it has been held. */
export async function beginHold(store: Store): Promise<{ heldForMs: number; isConfirmed: boolean }> {
  const [row] = await store.query<{ heldForMs: number; isConfirmed: boolean }>(
    `select held_for_ms as "heldForMs", is_confirmed as "isConfirmed" from ${store.schema}.begin_hold()`,
  );
  return row ?? { heldForMs: 0, isConfirmed: false };
}

export async function endHold(store: Store): Promise<boolean> {
  const rows = await store.query(`select ${store.schema}.end_hold()`);
  return rows.length > 0;
}

/** An operator's word that the silent machines are dead indeed. */
export async function confirmHold(store: Store): Promise<boolean> {
  const rows = await store.query(
    `update ${store.schema}.listening set hold_confirmed_at = clock_timestamp() where held_since is not null returning 1 as one`,
  );
  return rows.length > 0;
}

export async function noteSweep(store: Store, tookMs: number): Promise<void> {
  await store.query(`select ${store.schema}.note_sweep($1)`, [tookMs]);
}

/** Durable, and once while it stays open. False: it is open already. */
export async function raiseAlert(
  store: Store,
  alert: { kind: string; subject: string; message: string; details?: unknown },
): Promise<boolean> {
  const rows = await store.query(
    `insert into ${store.schema}.alert (kind, subject, message, details) values ($1, $2, $3, $4::json)
     on conflict (kind, subject) where resolved_at is null do nothing returning id`,
    [alert.kind, alert.subject, alert.message, JSON.stringify(alert.details ?? null)],
  );
  return rows.length > 0;
}

export async function resolveAlerts(store: Store, kind: string, subject: string): Promise<void> {
  await store.query(
    `update ${store.schema}.alert set resolved_at = now() where kind = $1 and subject = $2 and resolved_at is null`,
    [kind, subject],
  );
}

/** All of this kind that are about this part of a service, but for those about these subjects. */
export async function resolveOtherAlerts(
  store: Store,
  { kind, part, subjects }: { kind: string; part: string; subjects: readonly string[] },
): Promise<void> {
  await store.query(
    `update ${store.schema}.alert set resolved_at = now()
     where kind = $1 and details->>'part' = $2 and subject <> all ($3) and resolved_at is null`,
    [kind, part, subjects],
  );
}

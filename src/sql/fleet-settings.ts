/** By which settings the replicas that are here judge silence. */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Store } from "../database/database.ts";
import type { ReplicaId } from "../task/ids.ts";

export interface ReplicaSettings {
  readonly replicaId: ReplicaId;
  readonly hostname: string;
  /** It was the reaper of the last sweep: these are the settings that act. */
  readonly hasSwept: boolean;
  readonly settings: RecoverySettings;
}

/** Whether the settings of a replica `r` are on record in the form in which Everbeat writes them. */
export const ARE_SETTINGS = "r.recovery -> 'checkMs' is not null";

const IS_HERE = "r.status in ('online', 'draining')";
/** Whoever swept last. One that has left sweeps no more. */
const SWEEPS = "(r.id is not distinct from l.swept_by and r.status <> 'offline')";

/** The reaper of the last sweep first, unless it has left and others are here; then those that are online and could be the next. */
export async function readFleetSettings(store: Store): Promise<ReplicaSettings[]> {
  return store.query<ReplicaSettings>(
    `select r.id::text as "replicaId", r.hostname, r.id is not distinct from l.swept_by as "hasSwept", r.recovery as settings
     from ${store.schema}.replica r left join ${store.schema}.listening l on true
     where ${ARE_SETTINGS} and (${IS_HERE} or ${SWEEPS}
       or r.id = l.swept_by and not exists (select from ${store.schema}.replica r where ${ARE_SETTINGS} and ${IS_HERE}))
     order by "hasSwept" desc, r.started_at desc`,
  );
}

/** Those that act, as a query for one value: of whoever swept last, else of one that could be the next, else of the last that was here. */
export function actingSettings(schema: string): string {
  return `select r.recovery from ${schema}.replica r left join ${schema}.listening l on true
     where ${ARE_SETTINGS}
     order by ${SWEEPS} desc, ${IS_HERE} desc, r.id is not distinct from l.swept_by desc, r.started_at desc limit 1`;
}

/** Undefined: none are on record. */
export async function readActingSettings(store: Store): Promise<RecoverySettings | undefined> {
  const [row] = await store.query<{ settings: RecoverySettings | null }>(
    `select (${actingSettings(store.schema)}) as settings`,
  );
  return row?.settings ?? undefined;
}

/** Those by which this one works, else those that act. */
export async function readSettingsOf(store: Store, id: ReplicaId): Promise<RecoverySettings | undefined> {
  const s = store.schema;
  const [row] = await store.query<{ settings: RecoverySettings | null }>(
    `select coalesce((select r.recovery from ${s}.replica r where r.id = $1 and ${ARE_SETTINGS}), (${actingSettings(s)})) as settings`,
    [id],
  );
  return row?.settings ?? undefined;
}

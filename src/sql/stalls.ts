/** Attempts that do not get on: found, ended and told of. */
import type { Store } from "../database/database.ts";
import type { ClaimId, ReplicaId, TaskId } from "../task/ids.ts";
import { endingValues, type Outcome } from "./outcomes.ts";

export interface StalledClaim {
  readonly claimId: ClaimId;
  readonly taskId: TaskId;
  readonly replicaId: ReplicaId;
  readonly name: string;
  readonly attempt: number;
  readonly failures: number;
  readonly quietForMs: number;
  readonly stalledAfterMs: number;
  /** What its definition says. */
  readonly settings: unknown;
  readonly phase: string | null;
  readonly details: unknown;
  readonly share: number | null;
  readonly note: string | null;
}

/**
 * Attempts that have been quiet for this part of their `stalledAfter`, unless their owner has missed so many of its own beats: then its heart is judged.
 * Where no definition says `stalledAfter`, it is one look at a small table.
 */
export async function findStalled(
  store: Store,
  { fromPart, missedBeats }: { fromPart: number; missedBeats: number },
): Promise<StalledClaim[]> {
  return store.query<StalledClaim>(
    `select claim_id as "claimId", task_id::text as "taskId", replica_id::text as "replicaId", name, attempt, failures,
            quiet_for_ms as "quietForMs", stalled_after_ms::float8 as "stalledAfterMs", settings,
            phase, details, share, note
     from ${store.schema}.find_stalled($1, $2)`,
    [missedBeats, fromPart],
  );
}

/** Ends those that are still quiet for longer than that. Returns their claims. */
export async function endStalled(
  store: Store,
  stalled: readonly { outcome: Outcome; stalledAfterMs: number }[],
): Promise<ClaimId[]> {
  const [claims, tasks, outcomes] = endingValues(stalled.map(({ outcome }) => outcome)).values;
  const afterMs = new Map(stalled.map(({ outcome, stalledAfterMs }) => [outcome.claim, stalledAfterMs]));
  const rows = await store.query<{ claimId: ClaimId }>(
    `select end_stalled as "claimId" from ${store.schema}.end_stalled($1::bigint[], $2::uuid[], $3::float8[], $4::json)`,
    [claims, tasks, claims.map((claim) => afterMs.get(claim)), outcomes],
  );
  return rows.map(({ claimId }) => claimId);
}

export interface StallAlert {
  /** The task's id. */
  readonly subject: string;
  readonly message: string;
  readonly part: ClaimId;
  readonly details: unknown;
}

/** Returns the subjects of those that are new: of the others, an alert is open already. */
export async function raiseStallAlerts(store: Store, alerts: readonly StallAlert[]): Promise<string[]> {
  const rows = await store.query<{ subject: string }>(
    `with raised as materialized (
       select subject from json_to_recordset($1::json) as x (subject text, message text, details text, part text)
       where ${store.schema}.raise_alert('task-stalled', subject, message, details::json, part)
     )
     select subject from raised cross join (
       select ${store.schema}.tell_of_tasks('stalled', array_agg(subject::uuid), null, '{"action":"alerted"}') from raised) told`,
    // Details as JSON within text: they may be what a handler said.
    [JSON.stringify(alerts.map((alert) => ({ ...alert, details: JSON.stringify(alert.details) })))],
  );
  return rows.map(({ subject }) => subject);
}

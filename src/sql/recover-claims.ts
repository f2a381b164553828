/** Putting right what a replica that is not alive held: what somebody else has locked is passed over. */
import type { Store } from "../database/database.ts";
import type { ClaimId, ClaimOnTask, ReplicaId } from "../task/ids.ts";
import { listsOf } from "./claim-lists.ts";
import { endingValues, type Outcome } from "./outcomes.ts";
import type { Suspect } from "./suspicion.ts";

/** A claim that is in neither does not hold any more. */
export interface Freed {
  readonly done: readonly ClaimId[];
  readonly locked: readonly ClaimId[];
}

/** Suspects are noted with the ends of their attempts: whoever claims them next asks whether it may. */
export async function recoverClaims(
  store: Store,
  replicaId: ReplicaId,
  outcomes: readonly Outcome[],
  suspects: readonly Suspect[],
): Promise<Freed> {
  return freed(store, `select done, locked from ${store.schema}.recover_claims($1, $2, $3, $4::json, $5::json)`, [
    ...[replicaId, ...endingValues(outcomes).values, JSON.stringify(suspects)],
  ]);
}

export async function releaseAbsent(
  store: Store,
  replicaId: ReplicaId,
  claims: readonly ClaimOnTask[],
): Promise<Freed> {
  return freed(store, `select done, locked from ${store.schema}.release_absent($1, $2, $3)`, [
    ...[replicaId, ...listsOf(claims)],
  ]);
}

async function freed(store: Store, text: string, values: readonly unknown[]): Promise<Freed> {
  const [row] = await store.query<Freed>(text, values);
  return row ?? { done: [], locked: [] };
}

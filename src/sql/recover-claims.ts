/** Putting right what a replica that is not alive, or that is silent, held: what somebody else has locked is passed over. */
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

export const NOTHING_FREED: Freed = { done: [], locked: [] };

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

export interface UnstartedClaim extends ClaimOnTask {
  readonly name: string;
  readonly attempt: number;
}

/** What this replica has claimed and not started. */
export async function readUnstarted(store: Store, replicaId: ReplicaId): Promise<UnstartedClaim[]> {
  return store.query<UnstartedClaim>(
    `select claim_id as "claimId", task_id::text as "taskId", name, attempt from ${store.schema}.running
     where replica_id = $1 and state = 'claimed' order by claim_id`,
    [replicaId],
  );
}

/** Gives these back, if they are not started and their owner has not been heard for that long: both in this very moment. */
export async function releaseWhileSilent(
  store: Store,
  owner: { readonly replicaId: ReplicaId; readonly minMs: number },
  claims: readonly ClaimOnTask[],
): Promise<Freed> {
  return freed(store, `select done, locked from ${store.schema}.release_while_silent($1, $2, $3, $4)`, [
    ...[owner.replicaId, owner.minMs, ...listsOf(claims)],
  ]);
}

async function freed(store: Store, text: string, values: readonly unknown[]): Promise<Freed> {
  const [row] = await store.query<Freed>(text, values);
  return row ?? NOTHING_FREED;
}

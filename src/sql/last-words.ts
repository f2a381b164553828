/** What a replica says of itself just before its process may end, for those who find out that it has. */
import type { Store } from "../database/database.ts";
import type { ExitCall } from "../task/death.ts";
import type { ClaimOnTask, ReplicaId } from "../task/ids.ts";
import { listsOf } from "./claim-lists.ts";

/** They have told it to stop. It is not draining yet. */
export async function noteStoppers(store: Store, id: ReplicaId, claims: readonly ClaimOnTask[]): Promise<void> {
  const s = store.schema;
  await store.query(
    `update ${s}.replica set stopped_by = array(
       select u.claim_id from ${s}.running u
       where u.replica_id = $1 and (u.claim_id, u.task_id) in (select * from unnest($2::bigint[], $3::uuid[])))
     where id = $1 and status in ('online', 'draining')`,
    [id, ...listsOf(claims)],
  );
}

export async function noteExitCall(store: Store, id: ReplicaId, call: ExitCall): Promise<void> {
  await store.query(
    `update ${store.schema}.replica set exit_call = $2::json where id = $1 and status in ('online', 'draining')`,
    [id, JSON.stringify(call)],
  );
}

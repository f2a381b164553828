/** What a worker has to say to the database while tasks flow, in one statement and one transaction. */
import type { Store } from "../database/database.ts";
import {
  CLAIM_COLUMNS,
  CLAIM_PARAMETERS,
  type ClaimedTask,
  type ClaimRequest,
  claimTasks,
  claimValues,
} from "./claims.ts";
import {
  type EndingReport,
  type EndingRow,
  endingValues,
  NOTHING_REFUSED,
  type Outcome,
  reportOn,
} from "./outcomes.ts";

export interface RoundReport {
  readonly claimed: readonly ClaimedTask[];
  readonly ended: EndingReport;
}

/** Ends claims, then takes others: what the ending ones free can be taken in the same round. */
export async function workRound(
  store: Store,
  request: ClaimRequest,
  outcomes: readonly Outcome[],
): Promise<RoundReport> {
  if (outcomes.length === 0) return { claimed: await claimTasks(store, request), ended: NOTHING_REFUSED };
  // The parts of a UNION ALL are run one after the other, each to its end.
  const rows = await store.query<ClaimedTask | EndingRow>(
    `select ${CLAIM_COLUMNS} from (
       select claim as claim_id, null::uuid as task_id, verdict as state, null as name, null as queue,
              null::smallint as priority, null::smallint as attempt, null::smallint as failures, null::smallint as crashes,
              null::double precision as created_ms, null::json as input, null::json as metadata, null as exclusive_key,
              null::integer as lane_id, null::timestamptz as run_at
       from ${store.schema}.end_claims($11::bigint[], $12::json)
       union all
       select * from ${store.schema}.claim_tasks(${CLAIM_PARAMETERS})
     ) round`,
    [...claimValues(request), ...endingValues(outcomes)],
  );
  const claimed: ClaimedTask[] = [];
  const refused: EndingRow[] = [];
  for (const row of rows) {
    if (row.state === "running" || row.state === "claimed") claimed.push(row as ClaimedTask);
    else refused.push(row as EndingRow);
  }
  return { claimed, ended: await reportOn(store, outcomes, refused) };
}

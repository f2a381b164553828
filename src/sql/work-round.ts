/** What a worker has to say to the database while tasks flow, in one statement and one transaction. */
import type { Database } from "../database/database.ts";
import type { ClaimsRead } from "./claim-rows.ts";
import { type ClaimRequest, claimTasks, endAndClaimTasks } from "./claims.ts";
import {
  type EndingReport,
  endingValues,
  NOTHING_REFUSED,
  type NotAsAsked,
  type Outcome,
  reportOn,
} from "./outcomes.ts";

/** What a search has found. */
export type Found = Omit<ClaimsRead, "ended">;

export interface RoundReport extends Found {
  readonly ended: EndingReport;
}

/** Ends claims, then takes others: what the ending ones free can be taken in the same round. */
export async function workRound(
  database: Database,
  request: ClaimRequest,
  outcomes: readonly Outcome[],
): Promise<RoundReport> {
  if (outcomes.length === 0) return { ...(await claimTasks(database, request)), ended: NOTHING_REFUSED };
  const { ended, ...found } = await endAndClaimTasks(database, request, endingValues(outcomes));
  return { ...found, ended: await reportOn(database, outcomes, ended as NotAsAsked | null) };
}

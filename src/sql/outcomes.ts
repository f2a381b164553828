/** Ending attempts: each write names the claim that gives it the right. */
import type { Store } from "../database/database.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import type { ClaimId, ReplicaId, TaskId } from "../task/ids.ts";
import type { AttemptOutcome, EndedState } from "../task/states.ts";

export interface Outcome {
  readonly claim: ClaimId;
  readonly task: TaskId;
  readonly replica: ReplicaId;
  /** The task's new state: ended, or pending for another attempt. */
  readonly to: EndedState | "pending";
  readonly outcome: AttemptOutcome;
  readonly delayMs?: number;
  readonly failures?: number;
  readonly crashes?: number;
  /** The result as JSON text. */
  readonly resultJson?: string;
  readonly error?: ErrorRecord;
  /** Was completed in the handler's own transaction if that committed; this outcome counts only if it did not. */
  readonly confirm?: boolean;
}

export interface EndingReport {
  readonly repeated: readonly ClaimId[];
  readonly late: readonly ClaimId[];
  /** Tasks were let go that sort before those claimed last. */
  readonly hasUnparked: boolean;
}

export interface EndingRow {
  readonly claimId: ClaimId | null;
  readonly state: "repeat" | "late" | "unparked";
}

export async function endClaims(store: Store, outcomes: readonly Outcome[]): Promise<EndingReport> {
  const rows = await store.query<EndingRow>(
    `select claim as "claimId", verdict as state from ${store.schema}.end_claims($1::bigint[], $2::json)`,
    endingValues(outcomes),
  );
  return reportOf(rows);
}

export function endingValues(outcomes: readonly Outcome[]): [claims: ClaimId[], outcomesJson: string] {
  return [outcomes.map((outcome) => outcome.claim), `[${outcomes.map(outcomeJson).join(",")}]`];
}

export function reportOf(rows: readonly EndingRow[]): EndingReport {
  const claimsWith = (state: EndingRow["state"]) =>
    rows.filter((row) => row.state === state).map((row) => row.claimId as ClaimId);
  return {
    repeated: claimsWith("repeat"),
    late: claimsWith("late"),
    hasUnparked: rows.some((row) => row.state === "unparked"),
  };
}

/** Inside the user's transaction: fails at once where the claim is lost, and again at commit. With an outcome, ends the claim there. */
export async function guardClaim(tx: Store, claim: ClaimId, outcome?: Outcome): Promise<void> {
  await tx.query(`select ${tx.schema}.guard_claim($1::bigint, $2::json)`, [
    claim,
    outcome ? outcomeJson(outcome) : null,
  ]);
}

/** Result and error go in as JSON within text, so that they are stored to the letter. */
function outcomeJson(outcome: Outcome): string {
  // Nearly all outcomes are like this one, and ids need no escaping.
  if (outcome.outcome === "completed") {
    const { claim, task, replica, resultJson } = outcome;
    return `{"claim":${claim},"task":"${task}","replica":"${replica}","to":"completed","outcome":"completed","result":${JSON.stringify(resultJson)}}`;
  }
  const { resultJson, error, ...rest } = outcome;
  return JSON.stringify({ ...rest, result: resultJson, error: error && JSON.stringify(error) });
}

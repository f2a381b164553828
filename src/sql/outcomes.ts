/** Ending attempts: each write names the claim and the task that give it the right. */
import type { Store } from "../database/database.ts";
import { MAX_COUNT } from "../task/counts.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import type { ClaimId, ClaimOnTask, ReplicaId, TaskId } from "../task/ids.ts";
import type { AttemptOutcome, EndedState } from "../task/states.ts";
import { isLong, longValues } from "./long-values.ts";

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
  readonly resultJson?: string | undefined;
  readonly error?: ErrorRecord;
  /** Was completed in the handler's own transaction if that committed; this outcome counts only if it did not. */
  readonly confirm?: boolean;
  /** The crash of a runner at which it was together with others, if anybody is a suspect because of it. */
  readonly crash?: SharedCrash;
  /** It is found to be what kills its runners. */
  readonly isConvicted?: boolean;
}

/** Written with the ends of the attempts: whoever claims the tasks next asks whether they are suspects. */
interface SharedCrash {
  /** That of the runner, or of the stop. */
  readonly id: string;
  /** How many tasks may have caused it. */
  readonly suspects: number;
  /** From now on it runs beside no other suspect. */
  readonly isApart: boolean;
  /** Of these, some that this outcome is not about: they were in the runner earlier, or elsewhere in its worker within the same memory. */
  readonly others: readonly TaskId[];
}

export interface EndingReport {
  readonly repeated: readonly ClaimId[];
  readonly late: readonly ClaimId[];
  /** Tasks were let go that sort before those claimed last. */
  readonly hasUnparked: boolean;
}

/** What `end_claims` says where not all went as asked. */
export interface NotAsAsked {
  readonly unknown: readonly ClaimId[];
  /** Rows of tasks that were let go. */
  readonly unparked: readonly string[];
}

export const NOTHING_REFUSED: EndingReport = { repeated: [], late: [], hasUnparked: false };

/**
 * How long ends wait for a lock, in milliseconds. Somebody may keep a claim's row locked for ever: an outcome that waits for it would hold up all that
 * are written with it.
 */
export const LOCK_PATIENCE_MS = 500;

export async function endClaims(store: Store, outcomes: readonly Outcome[]): Promise<EndingReport> {
  return reportOn(store, outcomes, await endHeldClaims(store, outcomes));
}

/** Those of these claims whose rows somebody else has locked at this moment. */
export async function findLockedClaims(store: Store, outcomes: readonly Outcome[]): Promise<ReadonlySet<ClaimId>> {
  const [row] = await store.query<{ locked: ClaimId[] }>(
    `select locked::text[] as locked from ${store.schema}.lock_free_claims(array[$1]::uuid[], $2::bigint[], $3::uuid[])`,
    [outcomes[0]?.replica, outcomes.map(({ claim }) => claim), outcomes.map(({ task }) => task)],
  );
  return new Set(row?.locked);
}

/** The same where nothing came of claims that do not hold: then there is nothing to be kept on record. */
export async function endHeldClaims(store: Store, outcomes: readonly Outcome[]): Promise<NotAsAsked | null> {
  const ending = endingValues(outcomes);
  const more = longResults(ending, 4);
  const [row] = await store.query<{ said: NotAsAsked | null }>(
    `select ${store.schema}.${ending.ends}($1::bigint[], $2::uuid[], $3::json, array[$4]::uuid[], p_patience_ms => ${LOCK_PATIENCE_MS}${more.argument}) as said`,
    [...ending.values, outcomes[0]?.replica, ...more.values],
    "often",
  );
  return row?.said ?? null;
}

export interface EndingValues {
  readonly values: readonly [claims: ClaimId[], tasks: TaskId[], outcomesJson: string];
  /** Results that are too long for the outcomes. An outcome names the place of its result in this list, from 1. */
  readonly long: readonly string[];
  /** The function that ends them. */
  readonly ends: "end_claims" | "end_crashed_claims";
}

/** The last argument of `end_claims`, if any result is long. `before`: how many parameters the statement has already. */
export function longResults({ long }: EndingValues, before: number) {
  if (long.length === 0) return { argument: "", values: [] };
  const { list, values } = longValues(long, before);
  return { argument: `, p_long => ${list}`, values };
}

/**
 * A claim without an outcome has completed without a result, as most do. The claims are sorted, because then the database compares all of them
 * with their tasks at once.
 */
export function endingValues(outcomes: readonly Outcome[]): EndingValues {
  const claims: ClaimId[] = [];
  const tasks: TaskId[] = [];
  const others: string[] = [];
  const long: string[] = [];
  for (const outcome of outcomes.length > 1 ? [...outcomes].sort(byClaim) : outcomes) {
    claims.push(outcome.claim);
    tasks.push(outcome.task);
    const { resultJson } = outcome;
    if (isLong(resultJson)) {
      others.push(outcomeJson({ ...outcome, resultJson: undefined }, long.push(resultJson)));
    } else if (outcome.outcome !== "completed" || resultJson !== "null") others.push(outcomeJson(outcome));
  }
  const ends = outcomes.some(tellsOfRunner) ? "end_crashed_claims" : "end_claims";
  return { values: [claims, tasks, `[${others.join(",")}]`], long, ends };
}

function tellsOfRunner({ crash, isConvicted }: Outcome): boolean {
  return crash !== undefined || isConvicted === true;
}

/** They are whole numbers, written in digits. */
function byClaim({ claim: a }: Outcome, { claim: b }: Outcome): number {
  return a.length - b.length || (a < b ? -1 : 1);
}

/** Of claims that do not hold it has yet to be found out why; that is kept on record, apart from the others. */
export async function reportOn(
  store: Store,
  outcomes: readonly Outcome[],
  said: NotAsAsked | null,
): Promise<EndingReport> {
  if (said === null) return NOTHING_REFUSED;
  const unknown = new Set(said.unknown);
  const refused =
    unknown.size === 0
      ? []
      : await refuse(
          store,
          outcomes.filter(({ claim }) => unknown.has(claim)),
        );
  const claimsWith = (verdict: string) => refused.filter((row) => row.verdict === verdict).map(({ claim }) => claim);
  return { repeated: claimsWith("repeat"), late: claimsWith("late"), hasUnparked: said.unparked.length > 0 };
}

function refuse(store: Store, outcomes: readonly Outcome[]): Promise<{ claim: ClaimId; verdict: "repeat" | "late" }[]> {
  return store.query(`select claim, verdict from ${store.schema}.refuse_outcomes($1::json)`, [
    `[${outcomes.map(outcomeJson).join(",")}]`,
  ]);
}

/** Inside the user's transaction: fails at once where the claim is lost, and again at commit. With an outcome, ends the claim there. */
export async function guardClaim(tx: Store, { claimId, taskId }: ClaimOnTask, outcome?: Outcome): Promise<void> {
  await tx.query(`select ${tx.schema}.guard_claim($1::bigint, $2::uuid, $3::json)`, [
    claimId,
    taskId,
    outcome ? outcomeJson(outcome) : null,
  ]);
}

/** Result and error go in as JSON within text, so that they are stored to the letter. `long`: where the result is, if not here. */
function outcomeJson({ resultJson, error, failures, crashes, ...rest }: Outcome, long?: number): string {
  const counts = { failures: storableCount(failures), crashes: storableCount(crashes) };
  return JSON.stringify({
    ...rest,
    ...counts,
    result: resultJson,
    long,
    error: error && JSON.stringify(error),
    code: error?.code,
  });
}

function storableCount(count: number | undefined): number | undefined {
  return count === undefined ? undefined : Math.min(count, MAX_COUNT);
}

/** Puts the work of an absent owner right, in batches: each task as its state and its definition say. */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import type { Outcome } from "../sql/outcomes.ts";
import { type Freed, recoverClaims, releaseAbsent } from "../sql/recover-claims.ts";
import { type OwnedClaim, readClaimsOf } from "../sql/recovery.ts";
import { clearBystanders, countStoppers, noteCrash } from "../sql/suspicion.ts";
import type { ClaimId, ReplicaId, TaskId } from "../task/ids.ts";
import { storedSettings } from "../task/stored-settings.ts";
import type { OtherSuspects } from "./death-in-error.ts";
import { counted } from "./explain-words.ts";
import { freeClaims } from "./free-claims.ts";
import type { PassedBy } from "./passed-by.ts";
import type { PostMortems } from "./post-mortems.ts";
import {
  type Blamed,
  blamedFor,
  crashError,
  type Death,
  deathOfStopper,
  type RecoveryAction,
  recoveryOf,
} from "./recovery-action.ts";
import { mayBeByStrangers } from "./strangers.ts";
import { type Blame, blameOn, type Crowd, noBlameOn, sharersOf } from "./suspicion.ts";

const BATCH = 1_000;
/** The part of the sweep that tells of tasks that cannot be put right. */
export const RECOVERY_OF_TASKS = "tasks";

export interface Recovered {
  readonly taskId: TaskId;
  readonly claimId: ClaimId;
  readonly name: string;
  readonly attempt: number;
  readonly action: "released" | "cancelled" | "failed" | "quarantined" | "retried";
}

export interface RecoveryParts {
  readonly database: Database;
  readonly events: Events;
  readonly settings: RecoverySettings;
  readonly random: () => number;
  readonly postMortems?: PostMortems;
  /** Who is told of a task that cannot be put right, while the others are; without it, the first such error is the caller's. */
  readonly passedBy?: PassedBy;
}

interface Crash {
  readonly death: Death;
  readonly blamed: Blamed;
  /** Undefined: nobody is blamed for it. */
  readonly crowd: Crowd | undefined;
  /** Of all batches so far. */
  readonly convicted: TaskId[];
}

interface Planned {
  readonly claim: OwnedClaim;
  readonly blame: Blame;
  readonly action: RecoveryAction;
}

/**
 * While a batch is put right, the next is read, and of the one before it is written down what is known of its crash: three things for
 * which the database and this process do not wait for each other. Where one fails, what was put right before is told all the same.
 */
export async function recoverTasksOf(parts: RecoveryParts, death: Death): Promise<Recovered[]> {
  const { database, settings } = parts;
  const replicaId = death.replicaId as ReplicaId;
  // Counted before the first of them is gone, and kept.
  const blamed = settings.recoversRunning ? blamedFor(death, await countStoppers(database, replicaId)) : "nobody";
  const sharers = sharersOf(death);
  const noted = blamed === "nobody" ? undefined : await noteCrash(database, replicaId, sharers);
  const hasStrangers = blamed === "all" && sharers.length === 0 && mayBeByStrangers(death);
  const crowd = noted && { ...noted, hasStrangers };
  const crash: Crash = { death: { ...death, ...otherSuspects(crowd, sharers) }, blamed, crowd, convicted: [] };
  const read = (after?: ClaimId) => readClaimsOf(database, replicaId, { after, limit: BATCH });
  const recovered: Recovered[] = [];
  let reading = read();
  let telling = Promise.resolve();
  try {
    for (;;) {
      const claims = await reading;
      const last = claims.length < BATCH ? undefined : claims.at(-1);
      if (last) reading = heardLater(read(last.claimId));
      const done = await putRight(parts, crash, claims);
      // One after the other, whatever became of the one before; its error is not forgotten.
      telling = heardLater(telling.finally(async () => void recovered.push(...(await tellOf(parts, crash, done)))));
      if (!last) break;
    }
  } catch (error) {
    await telling.catch(() => {});
    throw error;
  }
  await telling;
  return recovered;
}

function otherSuspects(crowd: Crowd | undefined, sharers: readonly ReplicaId[]): OtherSuspects {
  const strangers = crowd?.hasStrangers ? { hasStrangers: true } : {};
  const others = crowd ? crowd.suspects - 1 : 0;
  if (others <= 0) return strangers;
  return sharers.length > 0 ? { withinLimit: others } : { inWorker: others, ...strangers };
}

/** Its error is that of whoever waits for it, who does so later. */
function heardLater<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {});
  return work;
}

/** Returns those that it was done with, and not by others meanwhile. */
async function putRight(parts: RecoveryParts, crash: Crash, claims: readonly OwnedClaim[]): Promise<Planned[]> {
  const { death, convicted } = crash;
  const planned = claims.map((claim) => planFor(claim, crash, parts));
  const ofKind = (isRelease: boolean) => planned.filter(({ action }) => (action.kind === "release") === isRelease);
  const free = (all: readonly Planned[], act: (some: readonly Planned[]) => Promise<Freed>) =>
    freeClaims(all, { whatOf: recoveryOfIt, act, passedBy: parts.passedBy });
  const done = [
    ...(await free(ofKind(true), (some) => release(parts.database, death, some))),
    ...(await free(ofKind(false), (some) => end(parts.database, death, some))),
  ];
  // Those of this batch were noted after an earlier one was convicted.
  convicted.push(...done.filter(({ action }) => isConviction(action)).map(({ claim }) => claim.taskId));
  if (convicted.length > 0) await clearBystanders(parts.database, convicted);
  return done;
}

function recoveryOfIt({ claim }: Planned): string {
  return `the recovery of task ${claim.taskId} (${claim.name})`;
}

function release(database: Database, death: Death, planned: readonly Planned[]): Promise<Freed> {
  return releaseAbsent(
    database,
    death.replicaId as ReplicaId,
    planned.map(({ claim }) => claim),
  );
}

/** These outcomes are no worker's, so they are not kept as late ones where a claim no longer holds. */
async function end(database: Database, death: Death, planned: readonly Planned[]): Promise<Freed> {
  const outcomes = planned.flatMap(({ claim, blame, action }) =>
    outcomesOf(claim, action, claim.isStopper && blame.share !== "cleared" ? deathOfStopper(death) : death),
  );
  if (outcomes.length === 0) return { done: [], locked: [] };
  return recoverClaims(database, death.replicaId as ReplicaId, outcomes, planned.flatMap(suspectOf));
}

/** The post-mortems before the events: whoever hears of a task can read why. */
async function tellOf(parts: RecoveryParts, { death }: Crash, done: readonly Planned[]): Promise<Recovered[]> {
  await parts.postMortems?.writeAttempts(
    death,
    done
      .filter(({ action }) => action.kind === "fail" || action.kind === "again")
      .map((plan) => crashedAttempt(plan, death)),
  );
  return done.flatMap(({ claim, action }) => {
    const { taskId, claimId, name, attempt } = claim;
    const how = isConviction(action) ? "quarantined" : ACTIONS[action.kind];
    if (!how) return [];
    const task: Recovered = { taskId, claimId, name, attempt, action: how };
    parts.events.emit("task.recovered", { ...task, replicaId: death.replicaId as ReplicaId, because: death.because });
    return [task];
  });
}

function planFor(claim: OwnedClaim, { crowd, blamed }: Crash, { settings, random }: RecoveryParts): Planned {
  const isBlamed = blamed === "all" || (blamed === "stoppers" && claim.isStopper);
  const blame = crowd && isBlamed ? blameOn(claim, crowd) : noBlameOn(claim);
  const task = { ...claim, ...storedSettings(claim.settings) };
  return { claim, blame, action: recoveryOf(task, blame, settings, random()) };
}

/** Those that run again, and those that are convicted: by them it is known at which crashes they were. */
function suspectOf({ claim, blame, action }: Planned) {
  if (blame.share === "cleared" || !(action.kind === "again" || isConviction(action))) return [];
  const isApart = action.kind === "again" && action.isApart;
  return [{ task: claim.taskId, claim: claim.claimId, isCharged: blame.share === "charged", isApart }];
}

function isConviction(action: RecoveryAction): boolean {
  return action.kind === "fail" && action.because === "crash-budget";
}

function crashedAttempt(plan: Planned, others: OtherSuspects) {
  const { replicaId, taskId, claimId, name } = plan.claim;
  return { replicaId, taskId, claimId, name, part: partWords(plan, others) };
}

function partWords({ claim, blame: { share }, action }: Planned, others: OtherSuspects): string {
  if (share === "cleared") return "its part in it: none, and it costs the task nothing";
  const did = claim.isStopper ? "it, or its batch, told the process to stop" : "it ran";
  const company = `${did} ${companyWords(others)}`;
  if (isConviction(action)) return `its part in it: ${company}, and no other had been at as many crashes`;
  return `its part in it: ${company}, and is ${share === "charged" ? "charged with it" : suspectedWords(others)}`;
}

function suspectedWords({ hasStrangers }: OtherSuspects): string {
  if (!hasStrangers) return "suspected with them";
  return "only suspected: other processes share its limit of memory, and it was not seen to be what grew";
}

function companyWords({ inWorker, withinLimit }: OtherSuspects): string {
  if (withinLimit) return `within the same memory limit as ${counted(withinLimit, "other")}`;
  return inWorker ? `beside ${counted(inWorker, "other")}` : "alone";
}

const ACTIONS: Record<RecoveryAction["kind"], Recovered["action"] | undefined> = {
  leave: undefined,
  release: "released",
  cancel: "cancelled",
  fail: "failed",
  again: "retried",
};

function outcomesOf(claim: OwnedClaim, action: RecoveryAction, death: Death): Outcome[] {
  const ref = { claim: claim.claimId, task: claim.taskId, replica: claim.replicaId };
  if (action.kind === "cancel") {
    const error = { code: "TASK_CANCELLED", message: claim.cancelReason ?? "Cancelled by request." };
    return [{ ...ref, to: "cancelled", outcome: "cancelled", error }];
  }
  const outcome = crashOutcome(ref, action, death);
  return outcome ? [outcome] : [];
}

/** Undefined where nothing is to be written about a crash. */
export function crashOutcome(
  ref: Pick<Outcome, "claim" | "task" | "replica">,
  action: RecoveryAction,
  death: Death,
): Outcome | undefined {
  if (action.kind !== "fail" && action.kind !== "again") return undefined;
  const base = { ...ref, crashes: action.crashes, error: crashError(death, action) };
  if (action.kind === "fail") return { ...base, to: "failed", outcome: "failed" };
  const outcome = death.isCharged === false ? "aborted" : "crashed";
  return { ...base, to: "pending", outcome, delayMs: action.delayMs };
}

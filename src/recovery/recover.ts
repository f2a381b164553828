/** Puts the work of an absent owner right, in batches: each task as its state and its definition say. */
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import { releaseClaims } from "../sql/claims.ts";
import { endClaims, type Outcome } from "../sql/outcomes.ts";
import { type OwnedClaim, readClaimsOf } from "../sql/recovery.ts";
import type { ClaimId, ReplicaId, TaskId } from "../task/ids.ts";
import { crashError, type Death, type RecoveryAction, recoveryOf } from "./recovery-action.ts";

const BATCH = 1_000;

export interface Recovered {
  readonly taskId: TaskId;
  readonly claimId: ClaimId;
  readonly name: string;
  readonly attempt: number;
  readonly action: "released" | "cancelled" | "failed" | "retried";
}

export async function recoverTasksOf(
  parts: { database: Database; events: Events; settings: RecoverySettings; random: () => number },
  death: Death,
): Promise<Recovered[]> {
  const recovered: Recovered[] = [];
  let after: ClaimId | undefined;
  for (;;) {
    const claims = await readClaimsOf(parts.database, death.replicaId as ReplicaId, { after, limit: BATCH });
    recovered.push(...(await recoverBatch(parts, death, claims)));
    if (claims.length < BATCH) return recovered;
    after = claims.at(-1)?.claimId;
  }
}

async function recoverBatch(
  { database, events, settings, random }: Parameters<typeof recoverTasksOf>[0],
  death: Death,
  claims: readonly OwnedClaim[],
): Promise<Recovered[]> {
  const planned = claims.map((claim) => ({
    claim,
    action: recoveryOf(
      {
        ...claim,
        onCrash: claim.onCrash ?? undefined,
        retry: claim.retry ?? undefined,
        isCharged: death.isCharged,
      },
      settings,
      random(),
    ),
  }));
  const releases = planned.filter(({ action }) => action.kind === "release").map(({ claim }) => claim.claimId);
  const outcomes = planned.flatMap(({ claim, action }) => outcomeOf(claim, action, death));
  if (releases.length > 0) await releaseClaims(database, releases);
  const late = new Set(outcomes.length > 0 ? (await endClaims(database, outcomes)).late : []);
  return planned.flatMap(({ claim, action }) => {
    const done = ACTIONS[action.kind];
    if (!done || late.has(claim.claimId)) return [];
    const { taskId, claimId, name, attempt } = claim;
    const task: Recovered = { taskId, claimId, name, attempt, action: done };
    events.emit("task.recovered", { ...task, replicaId: death.replicaId as ReplicaId, because: death.because });
    return [task];
  });
}

const ACTIONS: Record<RecoveryAction["kind"], Recovered["action"] | undefined> = {
  leave: undefined,
  release: "released",
  cancel: "cancelled",
  fail: "failed",
  again: "retried",
};

function outcomeOf(claim: OwnedClaim, action: RecoveryAction, death: Death): Outcome[] {
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

/** What becomes of an attempt whose runner died in the middle of it. Pure. */
import { probableCause } from "../recovery/probable-cause.ts";
import { crashOutcome } from "../recovery/recover.ts";
import { type Death, type RecoveryPolicy, recoveryOf } from "../recovery/recovery-action.ts";
import { ALONE, blameOn } from "../recovery/suspicion.ts";
import { describeEnd, type RunnerDeath } from "../runner/runner-death.ts";
import type { Outcome } from "../sql/outcomes.ts";
import type { TaskSettings } from "../task/settings.ts";
import { runnerEvidence } from "./runner-evidence.ts";

export interface CrashedAttempt {
  readonly ref: Pick<Outcome, "claim" | "task" | "replica">;
  readonly crashes: number;
  readonly death: RunnerDeath;
  /** The handler had completed the task in a transaction of its own, which may or may not have committed. */
  readonly completedInTransaction: boolean;
}

/** As a reaper would recover it, had the whole replica died. But here the end is certain, so it is never left as it is. */
export function crashOutcomeOf(
  attempt: CrashedAttempt,
  settings: TaskSettings,
  policy: RecoveryPolicy,
  random: number,
): Outcome {
  const { ref, crashes, death } = attempt;
  const { onCrash, retry, crashBudget } = settings;
  const task = { state: "running", crashes, suspicion: 0, isCancelled: false, onCrash, retry, crashBudget } as const;
  // In a runner of its own: whatever brought that down, no other task did.
  const action = recoveryOf(task, blameOn(task, ALONE), { ...policy, recoversRunning: true }, random);
  const { cause, sentence } = probableCause(runnerEvidence(death));
  const evidence: Death = {
    ...{ replicaId: ref.replica, machineId: undefined, hostname: death.hostname },
    because: death.because === "silent" ? "runner-silent" : "runner-ended",
    silentForMs: death.because === "silent" ? Math.round(death.silentForMs) : undefined,
    ...{ vitals: death.vitals, probableCause: cause, sentence },
    ...(death.stack === undefined ? {} : { stack: death.stack }),
    runner: {
      ...{ id: death.runnerId, kind: death.kind, pid: death.pid, exitCode: death.exitCode, signal: death.signal },
      what: `its runner ${describeEnd(death)}`,
    },
  };
  const outcome = crashOutcome(ref, action, evidence) as Outcome;
  return attempt.completedInTransaction ? { ...outcome, confirm: true } : outcome;
}

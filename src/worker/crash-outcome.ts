/** What becomes of an attempt whose runner died in the middle of it. Pure. */
import { probableCause } from "../recovery/probable-cause.ts";
import { crashOutcome } from "../recovery/recover.ts";
import { type Death, type RecoveryAction, type RecoveryPolicy, recoveryOf } from "../recovery/recovery-action.ts";
import { type Blame, blameOn, crowdInRunner } from "../recovery/suspicion.ts";
import { describeEnd, type RunnerDeath } from "../runner/runner-death.ts";
import type { Outcome, SharedCrash } from "../sql/outcomes.ts";
import type { TaskSettings } from "../task/settings.ts";
import { runnerEvidence } from "./runner-evidence.ts";

export interface CrashedAttempt {
  readonly ref: Pick<Outcome, "claim" | "task" | "replica">;
  readonly crashes: number;
  readonly suspicion: number;
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
  const { ref, crashes, suspicion, death } = attempt;
  const { onCrash, retry, crashBudget } = settings;
  const task = { state: "running", crashes, suspicion, isCancelled: false, onCrash, retry, crashBudget } as const;
  const blame = blameOn(task, crowdInRunner(inRunner(death)));
  const action = recoveryOf(task, blame, { ...policy, recoversRunning: true }, random);
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
  const outcome: Outcome = { ...(crashOutcome(ref, action, evidence) as Outcome), ...guiltOf(death, blame, action) };
  return attempt.completedInTransaction ? { ...outcome, confirm: true } : outcome;
}

/** All that may have brought the runner down: what it was running, and what it had run before. */
function inRunner({ attempts, before }: RunnerDeath): number {
  return Math.max(1, attempts.length) + before.count;
}

function guiltOf(death: RunnerDeath, { share }: Blame, action: RecoveryAction): Pick<Outcome, "crash" | "isConvicted"> {
  if (action.kind === "fail" && action.because === "crash-budget") return { isConvicted: true };
  if (share !== "suspected" || action.kind !== "again") return {};
  const before = [...new Set(death.before.last.map(({ taskId }) => taskId))];
  const crash: SharedCrash = { id: death.runnerId, running: inRunner(death), isApart: action.isApart, before };
  return { crash };
}

/** What becomes of an attempt whose runner died in the middle of it, or whose handler has stopped its own worker. Pure. */
import type { OtherSuspects } from "../recovery/death-in-error.ts";
import { probableCause } from "../recovery/probable-cause.ts";
import { crashOutcome } from "../recovery/recover.ts";
import { type Death, type RecoveryAction, type RecoveryPolicy, recoveryOf } from "../recovery/recovery-action.ts";
import { type Blame, blameOn, crowdAtRunner } from "../recovery/suspicion.ts";
import { describeEnd, type RunnerDeath } from "../runner/runner-death.ts";
import type { Outcome } from "../sql/outcomes.ts";
import type { TaskId } from "../task/ids.ts";
import type { TaskSettings } from "../task/settings.ts";
import { type Company, countOf } from "./company.ts";
import { runnerEvidence } from "./runner-evidence.ts";

export interface CrashedAttempt {
  readonly ref: Pick<Outcome, "claim" | "task" | "replica">;
  readonly crashes: number;
  readonly suspicion: number;
  /** The handler had completed the task in a transaction of its own, which may or may not have committed. */
  readonly completedInTransaction: boolean;
}

export interface AfterCrash {
  readonly settings: TaskSettings;
  readonly policy: RecoveryPolicy;
  readonly random: number;
}

/** A handler that has told its own worker to stop. */
export interface OwnStop {
  readonly id: string;
  /** How many tasks the handler had at once: one of them made it do so. */
  readonly tasks: number;
}

export interface RunnerCrash {
  readonly death: RunnerDeath;
  readonly company: Company;
}

export function runnerCrashOutcomeOf(
  attempt: CrashedAttempt,
  { death, company }: RunnerCrash,
  after: AfterCrash,
): Outcome {
  const { cause, sentence } = probableCause(runnerEvidence(death, company));
  const evidence: Death = {
    ...{ replicaId: attempt.ref.replica, machineId: undefined, hostname: death.hostname },
    because: death.because === "silent" ? "runner-silent" : "runner-ended",
    silentForMs: death.because === "silent" ? Math.round(death.silentForMs) : undefined,
    ...{ vitals: death.vitals, probableCause: cause, sentence },
    ...(death.stack === undefined ? {} : { stack: death.stack }),
    ...othersAt(death, company),
    runner: {
      ...{ id: death.runnerId, kind: death.kind, pid: death.pid, exitCode: death.exitCode, signal: death.signal },
      what: `its runner ${describeEnd(death)}`,
    },
  };
  // Of the last ones also those that returned: their results may not have been written.
  const others = [
    ...new Set([...death.before.last.map(({ taskId }) => taskId), ...death.before.again, ...company.inWorker]),
  ];
  const count = Math.max(1, death.attempts.length) + death.before.count + countOf(company);
  const { hasStrangers } = company;
  return outcomeOfCrash(attempt, evidence, { id: death.runnerId, count, others, hasStrangers }, after);
}

/** For people. */
function othersAt({ attempts, before }: RunnerDeath, company: Company): OtherSuspects {
  const counts = { inRunner: attempts.length - 1, before: before.count, inWorker: countOf(company) };
  const strangers = company.hasStrangers ? { hasStrangers: true } : {};
  return { ...Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0)), ...strangers };
}

/** The worker leaves in good order, and gives the other tasks back. */
export function ownStopOutcomeOf(
  attempt: CrashedAttempt,
  stop: OwnStop & { readonly hostname: string },
  after: AfterCrash,
): Outcome {
  const evidence: Death = {
    ...{ replicaId: attempt.ref.replica, machineId: undefined, hostname: stop.hostname },
    ...{ because: "stopped-by-task", silentForMs: undefined, vitals: undefined },
  };
  const suspects = { id: stop.id, count: stop.tasks, others: [], hasStrangers: false };
  return outcomeOfCrash(attempt, evidence, suspects, after);
}

/** The tasks that may have caused a crash. */
interface Suspects {
  /** The crash's id: that of the runner, or of the stop. */
  readonly id: string;
  /** How many there are. */
  readonly count: number;
  /** Those that were in the runner earlier, or elsewhere in its worker where that matters. */
  readonly others: readonly TaskId[];
  /** Besides them, processes that are none of ours may have caused it. */
  readonly hasStrangers: boolean;
}

/** As a reaper would recover it, had the whole replica died. But here the end is certain, so it is never left as it is. */
function outcomeOfCrash(attempt: CrashedAttempt, death: Death, suspects: Suspects, after: AfterCrash): Outcome {
  const { ref, crashes, suspicion } = attempt;
  const { onCrash, retry, crashBudget } = after.settings;
  const task = { state: "running", crashes, suspicion, isCancelled: false, onCrash, retry, crashBudget } as const;
  const blame = blameOn(task, crowdAtRunner(suspects.count, suspects.hasStrangers));
  const action = recoveryOf(task, blame, { ...after.policy, recoversRunning: true }, after.random);
  const outcome: Outcome = { ...(crashOutcome(ref, action, death) as Outcome), ...guiltOf(suspects, blame, action) };
  return attempt.completedInTransaction ? { ...outcome, confirm: true } : outcome;
}

/** Its own task is no suspect if it does not run again. The others may still be suspects then. */
function guiltOf(
  { id, count, others }: Suspects,
  { share }: Blame,
  action: RecoveryAction,
): Pick<Outcome, "crash" | "isConvicted"> {
  if (action.kind === "fail" && action.because === "crash-budget") return { isConvicted: true };
  const runsAgain = action.kind === "again";
  if (share !== "suspected" || (!runsAgain && others.length === 0)) return {};
  return { crash: { id, suspects: count, isApart: runsAgain && action.isApart, others } };
}

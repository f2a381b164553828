/** What becomes of a task whose owner is dead. Pure. */

import { formatDuration } from "../config/duration.ts";
import { DEATH_REASONS, type DeathRecord } from "../task/death.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import { backoffMs, DEFAULT_RETRY, type RetryPolicy } from "../task/retry.ts";
import type { DeathInError, OtherSuspects } from "./death-in-error.ts";
import { deathsWords } from "./explain-words.ts";
import { type Blame, type CrashRecord, isAtItsLastChance, isConvicted } from "./suspicion.ts";

export interface OwnedTask extends CrashRecord {
  readonly state: "claimed" | "running";
  /** Somebody had asked for it to be cancelled. */
  readonly isCancelled: boolean;
  /** What its definition says, where one is on record. */
  readonly onCrash: "fail" | "retry" | "requeue" | undefined;
  readonly retry: RetryPolicy | undefined;
  readonly crashBudget: number | undefined;
}

export interface RecoveryPolicy {
  readonly requeuesClaimed: boolean;
  /** Whether running tasks are recovered at all: failed, retried or requeued. */
  readonly recoversRunning: boolean;
  /** How many crashes a task may cost before it is not tried again, where its definition says nothing else. */
  readonly crashBudget: number;
}

export type RecoveryAction =
  | { readonly kind: "leave" }
  /** None of its code ran: back to its place, nothing spent. */
  | { readonly kind: "release" }
  /** It was to stop anyway. */
  | { readonly kind: "cancel" }
  | { readonly kind: "fail"; readonly crashes: number; readonly because: "on-crash" | "crash-budget" }
  | {
      readonly kind: "again";
      readonly crashes: number;
      readonly delayMs: number;
      /** From now on it runs beside no other suspect. */
      readonly isApart: boolean;
    };

export function recoveryOf(task: OwnedTask, blame: Blame, policy: RecoveryPolicy, random: number): RecoveryAction {
  if (task.state === "claimed") return policy.requeuesClaimed ? { kind: "release" } : { kind: "leave" };
  if (!policy.recoversRunning) return { kind: "leave" };
  if (task.isCancelled) return { kind: "cancel" };
  const { share, presences } = blame;
  const onCrash = task.onCrash ?? "fail";
  const budget = task.crashBudget ?? policy.crashBudget;
  const crashes = task.crashes + (share === "charged" ? 1 : 0);
  if (onCrash === "fail") return { kind: "fail", crashes, because: "on-crash" };
  if (isConvicted(blame, budget)) return { kind: "fail", crashes: presences, because: "crash-budget" };
  const step = Math.max(1, share === "cleared" ? crashes : presences);
  const delayMs = onCrash === "requeue" ? 0 : backoffMs(step, task.retry ?? DEFAULT_RETRY, random);
  return { kind: "again", crashes, delayMs, isApart: share !== "cleared" && isAtItsLastChance(presences, budget) };
}

/** A death as recovery knows it: what is on record, whose death it is, and what was found out since. */
export interface Death extends DeathRecord, OtherSuspects {
  readonly replicaId: string;
  /** It was not dead after all: it has come back under another id. */
  readonly cameBack?: boolean | undefined;
  /** What its post-mortem says, where there is one. */
  readonly probableCause?: string | undefined;
  readonly sentence?: string | undefined;
  /** Where it was a runner that died, and not its replica. */
  readonly runner?: {
    readonly id: string;
    readonly kind: "thread" | "process";
    readonly pid: number;
    readonly exitCode: number | null;
    readonly signal: string | null;
    /** In words. */
    readonly what: string;
  };
}

/** Who of those that a replica was running may be to blame for its death. */
export type Blamed = "nobody" | "stoppers" | "all";

/**
 * A shutdown, a deploy, a notice of preemption, a fence, or what another task is known to have done costs nobody a crash. A shutdown that tasks of
 * its own have asked for (`stoppers`: how many of them it still runs) costs these.
 */
export function blamedFor({ because, wasDraining, cameBack, isCharged, exitCall }: Death, stoppers: number): Blamed {
  if (cameBack === true || isCharged === false || exitCall !== undefined) return "nobody";
  if (stoppers > 0) return "stoppers";
  return wasDraining === true || because === "offline" ? "nobody" : "all";
}

/** For the one that has told its worker to stop, that is the cause. */
export function deathOfStopper({ wasDraining: _, ...death }: Death): Death {
  return { ...death, because: "stopped-by-task" };
}

/** How it died, as far as that is known. */
export function causeOf(
  death: Pick<DeathInError, "because" | "exitCode" | "signal" | "runner" | "blockedForMs">,
): string {
  return death.runner?.what ?? seen(death) ?? `${DEATH_REASONS[death.because].words}${blockedWords(death)}`;
}

/** The same for a column of a table. */
export function shortCauseOf(death: DeathRecord): string {
  return seen(death) ?? `${DEATH_REASONS[death.because].short}${blockedWords(death)}`;
}

/** Where somebody saw its process end. */
function seen({ because, exitCode, signal }: DeathRecord): string | undefined {
  if (because !== "exited") return undefined;
  if (signal) return `its process was ended by ${signal}`;
  return typeof exitCode === "number" ? `its process exited with code ${exitCode}` : undefined;
}

function blockedWords({ because, blockedForMs }: DeathRecord): string {
  return because === "loop-blocked" && blockedForMs !== undefined ? ` for ${formatDuration(blockedForMs)}` : "";
}

/** What is on record of a crash, for whoever has to review it. */
export function crashError(death: Death, action: RecoveryAction): ErrorRecord & Death {
  const why = death.sentence ? ` ${death.sentence}` : "";
  const isPoisoned = action.kind === "fail" && action.because === "crash-budget";
  const dead = `${deadWords(death)}${why}`;
  return {
    code: isPoisoned ? "POISONED" : "WORKER_CRASHED",
    message: `${dead} The task may have had part of its effects.${isPoisoned ? poisonWords(action.crashes, death) : ""}`,
    ...death,
  };
}

/** Who died, where and how. */
export function deadWords(death: DeathInError): string {
  const { where, silence } = wordsOn({ ...death, silentForMs: death.runner ? undefined : death.silentForMs });
  return `The ${death.runner?.kind ?? "worker"} that ran this task${where} is dead: ${causeOf(death)}${silence}.`;
}

function poisonWords(crashes: number, { runner }: Death): string {
  return ` It was running when ${deathsWords(crashes, runner ? "runner" : "worker")} died, more than any other task there: its crash budget is spent, and it is in quarantine.`;
}

export interface FailedByHand extends Pick<Death, "replicaId" | "hostname" | "silentForMs"> {
  readonly isOwnerDead: boolean;
}

/** The same where somebody ordered it: what is known of the owner, and no more than that. */
export function byHandError({ isOwnerDead, ...owner }: FailedByHand): ErrorRecord & { because: "by-hand" } {
  const { where, silence } = wordsOn(owner);
  return {
    code: "WORKER_CRASHED",
    message: `This task was failed by hand; its worker${where} was ${isOwnerDead ? "dead" : "alive"}${silence}. The task may have had part of its effects.`,
    ...owner,
    because: "by-hand",
  };
}

function wordsOn({ hostname, silentForMs }: Pick<Death, "hostname" | "silentForMs">): {
  where: string;
  silence: string;
} {
  return {
    where: hostname ? ` on ${hostname}` : "",
    silence: silentForMs === undefined ? "" : ` (silent for ${formatDuration(silentForMs)})`,
  };
}

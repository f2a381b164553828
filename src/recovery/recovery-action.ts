/** What becomes of a task whose owner is dead. Pure. */

import { formatDuration } from "../config/duration.ts";
import type { GroupMemory } from "../heart/group-memory.ts";
import type { ErrorRecord } from "../task/error-record.ts";
import { backoffMs, DEFAULT_RETRY, type RetryPolicy } from "../task/retry.ts";
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

export interface Death {
  readonly replicaId: string;
  readonly machineId: string | undefined;
  readonly hostname: string | undefined;
  readonly because:
    | "silent"
    | "session-lost"
    | "offline"
    | "missing"
    | "exited"
    | "runner-ended"
    | "runner-silent"
    | "stopped-by-task"
    | "loop-blocked";
  readonly silentForMs: number | undefined;
  readonly vitals: unknown;
  /** It was draining: told to go, and not gone in time. */
  readonly wasDraining?: boolean | undefined;
  /** False: another task is known to be at fault. */
  readonly isCharged?: boolean | undefined;
  /** It was not dead after all: it has come back under another id. */
  readonly cameBack?: boolean | undefined;
  readonly exitCode?: number | null | undefined;
  readonly signal?: string | null | undefined;
  /** The memory of its cgroup, as told by whoever saw it end. */
  readonly group?: GroupMemory | undefined;
  /** What its post-mortem says, where there is one. */
  readonly probableCause?: string | undefined;
  readonly sentence?: string | undefined;
  /** Where its loop was blocked, if it was and that could be seen. */
  readonly stack?: string;
  /** For how long its loop had been blocked when its heart ended the process for that. */
  readonly blockedForMs?: number | undefined;
  /** How many other tasks it was running, and, if it was a runner, how many it had run before: any of them may have caused its end. */
  readonly beside?: number | undefined;
  readonly before?: number | undefined;
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

/** A shutdown, a deploy, a notice of preemption, a fence, or what another task is known to have done costs nobody a crash. */
export function isBlameless({ because, wasDraining, cameBack, isCharged }: Death): boolean {
  return wasDraining === true || cameBack === true || isCharged === false || because === "offline";
}

/** How a process or a runner ended, as far as nobody saw how: for the error of an attempt and for a post-mortem. */
export const CAUSES: Record<Death["because"], string> = {
  silent: "its heart fell silent",
  "session-lost": "its database session ended and did not come back",
  offline: "its replica had left",
  missing: "its replica is not on record",
  "runner-ended": "its runner ended",
  "runner-silent": "its runner fell silent and was ended",
  "stopped-by-task": "this task told it to stop",
  exited: "its process ended",
  "loop-blocked": "it was ended because its event loop was blocked",
};

/** How it died, as far as that is known. */
export function causeOf({
  because,
  exitCode,
  signal,
  runner,
  blockedForMs,
}: Pick<Death, "because" | "exitCode" | "signal" | "runner" | "blockedForMs">): string {
  if (runner) return runner.what;
  if (because === "loop-blocked" && blockedForMs !== undefined)
    return `it was ended because its event loop was blocked for ${formatDuration(blockedForMs)}`;
  if (because !== "exited") return CAUSES[because];
  if (signal) return `its process was ended by ${signal}`;
  return typeof exitCode === "number" ? `its process exited with code ${exitCode}` : CAUSES.exited;
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
export function deadWords(death: Death): string {
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

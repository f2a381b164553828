/** What becomes of a task whose owner is dead. Pure. */
import type { ErrorRecord } from "../task/error-record.ts";
import { backoffMs, DEFAULT_RETRY, type RetryPolicy } from "../task/retry.ts";

export interface OwnedTask {
  readonly state: "claimed" | "running";
  readonly crashes: number;
  /** Somebody had asked for it to be cancelled. */
  readonly isCancelled: boolean;
  /** What its definition says, where one is on record. */
  readonly onCrash: "fail" | "retry" | "requeue" | undefined;
  readonly retry: RetryPolicy | undefined;
  /** False: its process was ended on account of another task, so that it costs none of its budget. */
  readonly isCharged?: boolean | undefined;
}

export interface RecoveryPolicy {
  readonly requeuesClaimed: boolean;
  /** Whether running tasks are recovered at all: failed, retried or requeued. */
  readonly recoversRunning: boolean;
  /** How many crashes a task may cost before it is not tried again. */
  readonly crashBudget: number;
}

export type RecoveryAction =
  | { readonly kind: "leave" }
  /** None of its code ran: back to its place, nothing spent. */
  | { readonly kind: "release" }
  /** It was to stop anyway. */
  | { readonly kind: "cancel" }
  | { readonly kind: "fail"; readonly crashes: number; readonly because: "on-crash" | "crash-budget" }
  | { readonly kind: "again"; readonly crashes: number; readonly delayMs: number };

export function recoveryOf(task: OwnedTask, policy: RecoveryPolicy, random: number): RecoveryAction {
  if (task.state === "claimed") return policy.requeuesClaimed ? { kind: "release" } : { kind: "leave" };
  if (!policy.recoversRunning) return { kind: "leave" };
  if (task.isCancelled) return { kind: "cancel" };
  const isCharged = task.isCharged !== false;
  const crashes = task.crashes + (isCharged ? 1 : 0);
  const onCrash = task.onCrash ?? "fail";
  if (onCrash === "fail") return { kind: "fail", crashes, because: "on-crash" };
  if (isCharged && crashes >= policy.crashBudget) return { kind: "fail", crashes, because: "crash-budget" };
  if (onCrash === "requeue") return { kind: "again", crashes, delayMs: 0 };
  return { kind: "again", crashes, delayMs: backoffMs(Math.max(1, crashes), task.retry ?? DEFAULT_RETRY, random) };
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
    | "loop-blocked";
  readonly silentForMs: number | undefined;
  readonly vitals: unknown;
  /** Where whoever started its process saw it end. */
  readonly exitCode?: number | null | undefined;
  readonly signal?: string | null | undefined;
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
  /** False: another task is known to be at fault. */
  readonly isCharged?: boolean | undefined;
}

const CAUSES: Record<Death["because"], string> = {
  silent: "its heart fell silent",
  "session-lost": "its database session ended and did not come back",
  offline: "its replica had left",
  missing: "its replica is not on record",
  "runner-ended": "its runner ended",
  "runner-silent": "its runner fell silent and was ended",
  exited: "its process ended",
  "loop-blocked": "it was ended because its event loop was blocked",
};

/** How it died, as far as that is known. */
export function causeOf({
  because,
  exitCode,
  signal,
  runner,
}: Pick<Death, "because" | "exitCode" | "signal" | "runner">): string {
  if (runner) return runner.what;
  if (because !== "exited") return CAUSES[because];
  if (signal) return `its process was ended by ${signal}`;
  return typeof exitCode === "number" ? `its process exited with code ${exitCode}` : CAUSES.exited;
}

/** What is on record of a crash, for whoever has to review it. */
export function crashError(death: Death, action: RecoveryAction): ErrorRecord & Death {
  const { where, silence } = wordsOn({ ...death, silentForMs: death.runner ? undefined : death.silentForMs });
  const budget = action.kind === "fail" && action.because === "crash-budget" ? " Its crash budget is spent." : "";
  return {
    code: "WORKER_CRASHED",
    message: `The worker that ran this task${where} is dead: ${causeOf(death)}${silence}. The task may have had part of its effects.${budget}`,
    ...death,
  };
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
    silence: silentForMs === undefined ? "" : ` (silent for ${Math.round(silentForMs)} ms)`,
  };
}

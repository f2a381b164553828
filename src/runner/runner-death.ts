/** The end of a runner, with all that is known of it. */
import { formatDuration } from "../config/duration.ts";
import { EverbeatError } from "../errors.ts";
import type { TaskRef } from "../events.ts";
import type { GroupMemory } from "../task/death.ts";
import type { RunnerVitals } from "./protocol.ts";
import type { RanBefore } from "./ran-before.ts";

export type RunnerKind = "thread" | "process";

/**
 * recycled     it had run its share, or had grown too large
 * left-behind  an attempt had not ended well and processes that were started meanwhile still ran, so it was ended with them
 * stopped      its worker stopped
 * aborted      its handler was told to stop and did not, so it was ended
 * silent       its heart was not heard any more, so it was ended
 * garbled      it could not be understood any more, since a handler had written where only the runner writes or had closed that, so it was ended
 * cut-off      its replica stood still for so long that others may run its task, so it ended itself
 * exited       by itself: a crash, an exit, a signal from elsewhere, no memory left
 * unstarted    it never became ready
 */
export type RunnerEndReason =
  | "recycled"
  | "left-behind"
  | "stopped"
  | "aborted"
  | "silent"
  | "garbled"
  | "cut-off"
  | "exited"
  | "unstarted";

export interface RunnerDeath {
  readonly runnerId: string;
  readonly kind: RunnerKind;
  readonly pid: number;
  readonly hostname: string;
  readonly because: RunnerEndReason;
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  /** What a thread threw that ended it, or why a runner could not start. */
  readonly message: string | undefined;
  readonly livedMs: number;
  /** How long its heart had not been heard. */
  readonly silentForMs: number;
  /** As of its last beat… */
  readonly vitals: RunnerVitals | undefined;
  /** …and of the one before. */
  readonly earlier: { readonly agoMs: number; readonly vitals: RunnerVitals } | undefined;
  readonly heapLimitMb: number | undefined;
  /** Where its loop was blocked, if it was and that could be seen. */
  readonly stack: string | undefined;
  /** The end of what it wrote to its standard error. */
  readonly stderrTail: string;
  /** What it was running. */
  readonly attempts: readonly TaskRef[];
  readonly before: RanBefore;
  /** The memory of all processes that share a limit with it. */
  readonly group: GroupMemory | undefined;
}

/** The others ended in good order, or were ended for their handler's or their worker's sake. */
export function isCrash({ because }: Pick<RunnerDeath, "because">): boolean {
  return because === "exited" || because === "silent" || because === "garbled";
}

/** A runner ended in the middle of its work. */
export class RunnerEndedError extends EverbeatError {
  readonly code = "RUNNER_ENDED";
  readonly kind = "unavailable";
  constructor(readonly death: RunnerDeath) {
    super(`The runner of this task ${describeEnd(death)}.`);
  }
}

/** There is no runner to be had: the task has not begun, and is given back. */
export class NoRunnerError extends EverbeatError {
  readonly code = "NO_RUNNER";
  readonly kind = "not-now";
  constructor(kind: RunnerKind, why: string) {
    super(`No ${kind} could be started for this task, which has not begun and was given back: ${why}`);
  }
}

/** "(process 123) was ended by SIGSEGV": the end of a sentence about the runner. */
export function describeEnd(death: RunnerDeath): string {
  const { kind, pid, exitCode, signal, message } = death;
  const who = kind === "process" ? `(process ${pid})` : "(a thread)";
  const hasEnded = signal !== null || exitCode !== null;
  const how = signal ? `was ended by ${signal}` : hasEnded ? `exited with code ${exitCode}` : "was to end and has not";
  const parts = [who, how, hasEnded ? whyItEnded(death) : "", message ? `(${message})` : ""];
  return parts.filter((part) => part !== "").join(" ");
}

function whyItEnded({ because, silentForMs }: RunnerDeath): string {
  if (because === "silent") return `after its heart had been silent for ${formatDuration(silentForMs)}`;
  return because === "aborted" ? "because its handler did not stop when it was told to" : "";
}

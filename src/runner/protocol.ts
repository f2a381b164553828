/**
 * What a replica and its runners say to each other: lines of JSON, over a pipe or a thread's port. Pure.
 *
 *   replica ── begin ──▶ runner (loads the modules) ── ready │ failed ──▶
 *           ── run, abort ──▶ (the handler)  ── call, completing ──▶
 *                                            ── an outcome for each item, ended ──▶
 *           ── leave │ end ──▶ (exits)
 *
 * A process beats on a pipe of its own, written by its heart's thread, so that it is heard also while its loop is blocked. Whatever its
 * replica writes there asks the heart for a last look at that loop.
 *
 * Whatever a runner says begins with its seal, which its replica has told it: a handler can write to the same pipe or port, and must not be
 * taken for its runner.
 */
import { constants } from "node:buffer";
import type { TaskRef } from "../events.ts";
import type { BlockageSight } from "../heart/loop-watch.ts";
import type { Vitals } from "../heart/vitals.ts";
import type { TaskInfo } from "../task/context.ts";
import type { ClaimId, ReplicaId } from "../task/ids.ts";
import type { CarriedError } from "./carried-error.ts";

/** What a runner is told when it starts. */
export interface RunnerCharge {
  /** Addresses of the modules that export its tasks, and the tasks' names. */
  readonly modules: readonly string[];
  readonly names: readonly string[];
  readonly cwd: string;
  /** Quoted. */
  readonly schema: string;
  readonly resultLimitBytes: number;
  readonly beatEveryMs: number;
  /** How long after its replica was last heard the lease is over. */
  readonly leaseMs: number;
  /** A loop that has been blocked for this long is told of, with its stack. */
  readonly stackAfterMs: number;
}

/** One member of a batch on its way to the handler: the input as it was stored, checked by the task's schema over there. */
export interface RunItem {
  readonly input: unknown;
  readonly task: Omit<TaskInfo, "enqueuedAt"> & { readonly enqueuedAt: string };
  readonly claimId: ClaimId;
  readonly replicaId: ReplicaId;
}

export type ToRunner =
  | { readonly type: "begin"; readonly charge: RunnerCharge; readonly seal: string }
  | {
      readonly type: "run";
      readonly job: number;
      readonly name: string;
      readonly items: readonly RunItem[];
      /** It must be over when the lease is. */
      readonly mustStop: boolean;
    }
  | { readonly type: "abort"; readonly job: number; readonly item: number; readonly reason: CarriedError }
  /** There is nothing more to do. It is ended after that time. */
  | { readonly type: "leave"; readonly withinMs: number }
  /** Its handler was told to stop and did not. */
  | { readonly type: "end"; readonly withinMs: number };

export type CarriedOutcome =
  | { readonly kind: "returned"; readonly resultJson: string }
  | { readonly kind: "threw"; readonly error: CarriedError }
  | { readonly kind: "snoozed"; readonly delayMs: number };

export type FromRunner =
  | { readonly type: "ready" }
  | { readonly type: "failed"; readonly error: CarriedError }
  | { readonly type: "beat"; readonly vitals: RunnerVitals }
  /** Its loop has been blocked for long, and again each time that has lasted twice as long; then that it turns again. */
  | { readonly type: "blocked"; readonly sight: BlockageSight }
  | { readonly type: "turned"; readonly blockedMs: number }
  /** Its replica's lease is over, so that it ends itself. Read, if ever, when the replica is awake again. */
  | { readonly type: "cut-off" }
  /** A call of the handler's context that nobody waits for, such as `log`. */
  | {
      readonly type: "call";
      readonly job: number;
      readonly item: number;
      readonly name: string;
      readonly args: readonly unknown[];
    }
  /** So many lines that a handler printed could not be passed on, since they were last counted. */
  | { readonly type: "dropped"; readonly lines: number; readonly reason: string }
  /** The handler is about to commit the task's completion in a transaction of its own. */
  | { readonly type: "completing"; readonly job: number; readonly item: number }
  /** The handler is about to tell its worker to stop. */
  | { readonly type: "own-stop"; readonly job: number }
  /** Something that the handler of an earlier job left behind has failed. `task`: of that job, the first. */
  | { readonly type: "late-error"; readonly task: TaskRef; readonly error: CarriedError }
  /** One message for each item: so the longest message does not grow with the number of items. */
  | { readonly type: "outcome"; readonly job: number; readonly item: number; readonly outcome: CarriedOutcome }
  | {
      readonly type: "ended";
      readonly job: number;
      readonly memory: number;
      /** Something of this job may still go on over there: the runner is not for anybody else. */
      readonly isTainted: boolean;
      /** An attempt of this job has not ended well, and processes that were started over there since it began are still running. */
      readonly leavesProcesses: boolean;
    };

/** A process tells all of them; a thread what is its own. */
export type RunnerVitals = Partial<Vitals>;

/** What any message has besides a result: an error with its causes, the fields of a log line, each character escaped. */
const MOST_BESIDES_RESULT = 8 * 1_048_576;

/** How many characters a message of a runner can have: a result is JSON in JSON, whose quotes and backslashes are doubled. */
export function longestMessage(resultLimitBytes: number): number {
  return Math.min(constants.MAX_STRING_LENGTH, 2 * resultLimitBytes + MOST_BESIDES_RESULT);
}

export function encode(message: ToRunner): string {
  return JSON.stringify(message);
}

/** Undefined for what is no message: in a thread, anybody can post something. */
export function decode(line: unknown): ToRunner | undefined {
  return parsed<ToRunner>(line);
}

export function encodeSealed(seal: string, message: FromRunner): string {
  return seal + JSON.stringify(message);
}

/** Undefined for what its runner has not said. */
export function decodeSealed(seal: string, line: unknown): FromRunner | undefined {
  const isSealed = typeof line === "string" && line.startsWith(seal);
  return isSealed ? parsed<FromRunner>(line.slice(seal.length)) : undefined;
}

function parsed<Message extends ToRunner | FromRunner>(line: unknown): Message | undefined {
  try {
    const message = JSON.parse(line as string) as unknown;
    const isMessage = typeof message === "object" && message !== null && "type" in message;
    return isMessage ? (message as Message) : undefined;
  } catch {
    return undefined;
  }
}

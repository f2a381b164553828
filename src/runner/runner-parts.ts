/** What a runner is made with, and what it is given to do. */
import type { TaskRef } from "../events.ts";
import type { GrowthWatch } from "../heart/growth.ts";
import type { BatchItem } from "../task/define-task.ts";
import type { ReplicaId } from "../task/ids.ts";
import type { RunnerBlockages } from "./blockages.ts";
import type { OpenChannel } from "./channel.ts";
import type { RunnerCharge } from "./protocol.ts";
import type { Runner } from "./runner.ts";
import type { RunnerDeath, RunnerKind } from "./runner-death.ts";

export interface RunnerGraces {
  /** How long a handler may take to stop once its signal has fired. */
  readonly abortMs: number;
  /** The same where others may soon run its task, or do so already. */
  readonly cutOffMs: number;
  /** Between asking a process to end and ending it. */
  readonly terminateMs: number;
  /** For one that has nothing to do. */
  readonly leaveMs: number;
  /** A thread in native code cannot be ended; after this long it is left to itself. */
  readonly giveUpMs: number;
}

export interface RunnerParts {
  readonly kind: RunnerKind;
  readonly open: OpenChannel;
  readonly charge: RunnerCharge;
  readonly heapLimitMb: number | undefined;
  readonly leaseFd: number | undefined;
  readonly startTimeoutMs: number;
  readonly graces: RunnerGraces;
  readonly groupMemory: Pick<GrowthWatch, "sign"> | undefined;
  readonly blockages: Pick<RunnerBlockages, "onBlocked" | "onTurned">;
  readonly onReady: (runner: Runner) => void;
  /** The job that it had is over. */
  readonly onIdle: (runner: Runner) => void;
  /** Lines that a handler printed could not be passed on. */
  readonly onDropped: (lines: number, reason: string) => void;
  readonly onEnded: (runner: Runner, death: RunnerDeath) => void;
}

export interface RunnerJob {
  readonly name: string;
  readonly items: readonly BatchItem<never>[];
  readonly replicaId: ReplicaId;
  /** It must not go on when its replica cannot prove its claim any more. */
  readonly mustStop: boolean;
  /** Its handler has told the worker to stop. */
  readonly onOwnStop: () => void;
  /** Something that a handler in this runner left behind has failed. */
  readonly onLateError: (task: TaskRef, error: unknown) => void;
}

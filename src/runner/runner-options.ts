/** The options of a worker's runners, checked once. */
import { availableParallelism } from "node:os";
import { type Checked, isDuration, isInteger, isOptions } from "../config/checks.ts";
import type { Duration } from "../config/duration.ts";
import { isMemorySize, type MemorySize } from "../config/memory-size.ts";

export interface RunnerOptions {
  /** How many threads, for tasks with `runIn: "thread"` (default: as many as there are processors). */
  threads?: number | undefined;
  /** How many processes, for tasks with `runIn: "process"` (default: as many as there are processors). */
  processes?: number | undefined;
  /** A runner is replaced after this many jobs (default 1 000). */
  recycleAfter?: number | undefined;
  /** A runner that holds more than this after a job is replaced (default: any amount). */
  maxMemory?: MemorySize | undefined;
  /** A runner whose JavaScript heap would grow beyond this is ended by Node (default: Node's own limit). */
  heapLimit?: MemorySize | undefined;
  /** How long a runner may take to be ready, its modules loaded (default 30 s). */
  startTimeout?: Duration | undefined;
}

export interface RunnerSettings {
  readonly threads: number;
  readonly processes: number;
  readonly recycleAfter: number;
  readonly maxMemoryBytes: number;
  readonly heapLimitMb: number | undefined;
  readonly startTimeoutMs: number;
}

const MB = 1_048_576;

const SHAPE = {
  threads: isInteger({ min: 1, max: 1_000 }),
  processes: isInteger({ min: 1, max: 1_000 }),
  recycleAfter: isInteger({ min: 1, max: 1_000_000_000 }),
  maxMemory: isMemorySize({ min: MB }),
  heapLimit: isMemorySize({ min: 16 * MB }),
  startTimeout: isDuration({ minMs: 1, maxMs: 3_600_000 }),
};

export const isRunnerOptions = isOptions(SHAPE);

export function runnerSettings(given: Checked<typeof SHAPE> | undefined): RunnerSettings {
  return Object.freeze({
    threads: given?.threads ?? availableParallelism(),
    processes: given?.processes ?? availableParallelism(),
    recycleAfter: given?.recycleAfter ?? 1_000,
    maxMemoryBytes: given?.maxMemory ?? Number.POSITIVE_INFINITY,
    heapLimitMb: given?.heapLimit === undefined ? undefined : Math.floor(given.heapLimit / MB),
    startTimeoutMs: given?.startTimeout ?? 30_000,
  });
}

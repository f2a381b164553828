/** The options of a worker, checked once. */
import {
  anything,
  type Check,
  checkOptions,
  describe,
  isBoolean,
  isDuration,
  isInteger,
  isOptions,
} from "../config/checks.ts";
import { type Duration, MAX_DURATION_MS } from "../config/duration.ts";
import { Problems } from "../config/problems.ts";
import { isRunnerOptions, type RunnerOptions, type RunnerSettings, runnerSettings } from "../runner/runner-options.ts";
import type { Middleware } from "../task/context.ts";
import type { AnyTask } from "../task/define-task.ts";
import { isName } from "../task/settings.ts";

export interface WorkOptions {
  /** How many tasks run at once in this process (default 10). */
  concurrency?: number | undefined;
  /** The queues to work on (default: all), each with a limit of its own in this process if need be. */
  queues?: readonly string[] | Record<string, { concurrency?: number }> | undefined;
  /** How many tasks to claim ahead of free slots (default 0: what ends and what starts go in one statement anyway). */
  prefetch?: number | undefined;
  /** How often to look without being told (default 2 s). */
  pollInterval?: Duration | undefined;
  /** On shutdown, how long running tasks may take to end before they are told to stop (default 30 s). */
  shutdownGrace?: Duration | undefined;
  /** How long a handler may take to stop once its signal has fired (default 10 s). */
  abortGrace?: Duration | undefined;
  /** How many outcomes may be held while the database is away; no new work is started beyond (default 10 000). */
  maxHeldOutcomes?: number | undefined;
  /** Stop gracefully on SIGTERM and SIGINT (default true). */
  handleSignals?: boolean | undefined;
  /** How long the record of ended tasks is kept (default 7 days), and how many (default: any number). */
  retention?: { maxAge?: Duration; maxCount?: number };
  /** Around every handler, outermost first. */
  middleware?: readonly Middleware[] | undefined;
  /** The threads and processes for tasks with `runIn`. */
  runners?: RunnerOptions | undefined;
}

export interface WorkSettings {
  readonly concurrency: number;
  readonly queues: readonly string[] | undefined;
  readonly queueLimits: ReadonlyMap<string, number>;
  readonly prefetch: number;
  readonly pollMs: number;
  readonly shutdownGraceMs: number;
  readonly abortGraceMs: number;
  readonly maxHeldOutcomes: number;
  readonly handleSignals: boolean;
  readonly retention: { readonly maxAgeMs: number | undefined; readonly maxCount: number | undefined };
  readonly middleware: readonly Middleware[];
  readonly runners: RunnerSettings;
}

/** How long running tasks may take to end on shutdown, where nothing else is said. */
export const DEFAULT_SHUTDOWN_GRACE_MS = 30_000;
export const DEFAULT_ABORT_GRACE_MS = 10_000;

const DAY_MS = 86_400_000;
const isConcurrency = isInteger({ min: 1, max: 10_000 });

const A_LIST_OF_QUEUES = 'must be a list of queues such as ["mail"], or an object such as { mail: { concurrency: 2 } }';

const isQueues: Check<Map<string, number | undefined>> = (value, path, problems) => {
  const queues = new Map<string, number | undefined>();
  if (Array.isArray(value)) {
    for (const [index, name] of value.entries()) {
      const checked = isName(name, `${path}[${index}]`, problems);
      if (checked) queues.set(checked, undefined);
    }
  } else if (typeof value === "object" && value !== null) {
    for (const [name, options] of Object.entries(value)) {
      isName(name, `${path}.${name}`, problems);
      const checked = checkOptions(options, { concurrency: isConcurrency }, { path: `${path}.${name}`, problems });
      queues.set(name, checked.concurrency);
    }
  }
  if (typeof value !== "object" || value === null) problems.add(path, `${A_LIST_OF_QUEUES}, not ${describe(value)}`);
  else if (Object.keys(value).length === 0) problems.add(path, `must name at least one queue, not ${describe(value)}`);
  return queues;
};

export const isPollInterval = isDuration({ minMs: 10, maxMs: 60_000 });
export const isShutdownGrace = isDuration({ minMs: 0, maxMs: DAY_MS });
export const isAbortGrace = isDuration({ minMs: 0, maxMs: DAY_MS });

const SHAPE = {
  concurrency: isConcurrency,
  queues: isQueues,
  prefetch: isInteger({ min: 0, max: 10_000 }),
  pollInterval: isPollInterval,
  shutdownGrace: isShutdownGrace,
  abortGrace: isAbortGrace,
  maxHeldOutcomes: isInteger({ min: 1, max: 10_000_000 }),
  handleSignals: isBoolean,
  retention: isOptions({
    maxAge: isDuration({ minMs: 0, maxMs: MAX_DURATION_MS }),
    maxCount: isInteger({ min: 0, max: 1_000_000_000 }),
  }),
  middleware: anything as Check<readonly Middleware[]>,
  runners: isRunnerOptions,
};

export function checkWork(tasks: readonly AnyTask[], options: WorkOptions | undefined): WorkSettings {
  const problems = new Problems();
  const given = checkOptions(options, SHAPE, { path: "", problems });
  checkTasks(tasks, problems);
  const middleware = given.middleware ?? [];
  if (!Array.isArray(middleware) || middleware.some((entry) => typeof entry !== "function")) {
    problems.add("middleware", "must be a list of functions");
  }
  problems.throwIfAny("The worker");
  const limits = [...(given.queues ?? [])].filter((entry): entry is [string, number] => entry[1] !== undefined);
  return Object.freeze({
    concurrency: given.concurrency ?? 10,
    queues: given.queues ? [...given.queues.keys()] : undefined,
    queueLimits: new Map(limits),
    prefetch: given.prefetch ?? 0,
    pollMs: given.pollInterval ?? 2_000,
    shutdownGraceMs: given.shutdownGrace ?? DEFAULT_SHUTDOWN_GRACE_MS,
    abortGraceMs: given.abortGrace ?? DEFAULT_ABORT_GRACE_MS,
    maxHeldOutcomes: given.maxHeldOutcomes ?? 10_000,
    handleSignals: given.handleSignals ?? true,
    retention: { maxAgeMs: given.retention?.maxAge ?? 7 * DAY_MS, maxCount: given.retention?.maxCount },
    middleware,
    runners: runnerSettings(given.runners),
  });
}

function checkTasks(tasks: readonly AnyTask[], problems: Problems): void {
  if (!Array.isArray(tasks) || tasks.length === 0) {
    problems.add("tasks", "must be a list with at least one task");
    return;
  }
  const seen = new Set<string>();
  for (const [index, task] of tasks.entries()) {
    if (typeof task?.runBatch !== "function")
      problems.add(`tasks[${index}]`, "must be made by defineTask or defineBatchTask");
    else if (seen.has(task.name)) problems.add(`tasks[${index}]`, `there are two tasks named "${task.name}"`);
    else seen.add(task.name);
    if (task?.settings?.runIn && task.settings.runIn !== "inline" && task.settings.module === undefined) {
      const where = `"${task.name}" runs in a ${task.settings.runIn}, which must find its code`;
      problems.add(`tasks[${index}]`, `${where}: export it, and define it with module: import.meta.url`);
    }
  }
}

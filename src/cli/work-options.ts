/** The options of the commands that run a worker. */
import { type Command, Option } from "commander";
import type { RecoveryOptions } from "../config/recovery-options.ts";
import type { LogLevel } from "../log.ts";
import type { RunnerOptions } from "../runner/runner-options.ts";
import { isName } from "../task/settings.ts";
import { isAbortGrace, isPollInterval, isShutdownGrace, type WorkOptions } from "../worker/options.ts";
import { commaSeparated, duration, wholeNumber } from "./arguments.ts";
import { recoveryOptions } from "./recovery-options.ts";
import { runnerOptions } from "./runner-options.ts";

export interface WorkCliOptions {
  readonly concurrency?: number;
  readonly queues?: string[];
  readonly prefetch?: number;
  readonly pollInterval?: number;
  readonly shutdownGrace?: number;
  readonly abortGrace?: number;
  readonly runners?: RunnerOptions;
  readonly recovery?: RecoveryOptions;
  readonly logLevel: LogLevel;
}

const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error", "silent"];

export function addWorkOptions(command: Command): void {
  command
    .option("--concurrency <number>", "how many tasks run at once (default: 10)", wholeNumber({ min: 1, max: 10_000 }))
    .option("--queues <names>", "the queues to work on, as in mail,images (default: all)", commaSeparated(isName))
    .option(
      "--prefetch <number>",
      "how many to claim ahead of free slots (default: 0)",
      wholeNumber({ min: 0, max: 10_000 }),
    )
    .option(
      "--poll-interval <duration>",
      "how often to look without being told (default: 2s)",
      duration(isPollInterval),
    )
    .option(
      "--shutdown-grace <duration>",
      "how long running tasks may take to end on shutdown (default: 30s)",
      duration(isShutdownGrace),
    )
    .option(
      "--abort-grace <duration>",
      "how long a handler may take to stop once its signal has fired (default: 10s)",
      duration(isAbortGrace),
    )
    .option(
      "--runners <settings>",
      "the threads and processes for tasks with runIn, as in processes=2,heapLimit=512MB",
      runnerOptions,
    )
    .option(
      "--recovery <settings>",
      "a profile, or options as in profile=quick,checkInterval=10s (default: fast)",
      recoveryOptions,
    );
  addLogLevel(command, "info");
}

export function addLogLevel(command: Command, level: LogLevel): void {
  command.addOption(new Option("--log-level <level>", "debug shows every task").choices(LEVELS).default(level));
}

export function toWorkOptions(options: WorkCliOptions): WorkOptions {
  const { concurrency, queues, prefetch, pollInterval, shutdownGrace, abortGrace, runners } = options;
  return {
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(queues === undefined ? {} : { queues }),
    ...(prefetch === undefined ? {} : { prefetch }),
    ...(pollInterval === undefined ? {} : { pollInterval }),
    ...(shutdownGrace === undefined ? {} : { shutdownGrace }),
    ...(abortGrace === undefined ? {} : { abortGrace }),
    ...(runners === undefined ? {} : { runners }),
  };
}

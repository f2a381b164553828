/** The options of a command that supervises worker processes. */
import type { Command } from "commander";
import { isDuration } from "../config/checks.ts";
import { DEFAULT_RESTART, type RestartPolicy } from "../supervisor/restart.ts";
import { duration, wholeNumber } from "./arguments.ts";
import { UsageError } from "./errors.ts";

export interface SuperviseCliOptions {
  readonly processes?: number;
  readonly healthyAfter?: number;
  readonly crashLoopAfter?: number;
}

export function addSuperviseOptions(command: Command): void {
  command
    .option(
      "--processes <number>",
      "keep so many worker processes running; SIGHUP replaces them one at a time",
      wholeNumber({ min: 1, max: 256 }),
    )
    .option(
      "--healthy-after <duration>",
      "with --processes: one that was ready for so long was well (default: 10s)",
      duration(isDuration({ minMs: 0, maxMs: 3_600_000 })),
    )
    .option(
      "--crash-loop-after <number>",
      "with --processes: so many ends in a row are a crash loop (default: 6)",
      wholeNumber({ min: 1, max: 1_000_000 }),
    );
}

export function toRestartPolicy({ processes, healthyAfter, crashLoopAfter }: SuperviseCliOptions): RestartPolicy {
  const stray = healthyAfter === undefined ? crashLoopAfter !== undefined && "--crash-loop-after" : "--healthy-after";
  if (processes === undefined && stray) throw new UsageError(`${stray} means nothing without --processes. Add it.`);
  return {
    ...DEFAULT_RESTART,
    ...(healthyAfter === undefined ? {} : { healthyAfterMs: healthyAfter }),
    ...(crashLoopAfter === undefined ? {} : { loopAfter: crashLoopAfter }),
  };
}

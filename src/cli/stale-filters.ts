/** The options by which stale tasks are chosen, shared by the commands that find and recover them. */
import type { Command } from "commander";
import type { InputOf } from "../operations/operations.ts";
import { isStaleAfter } from "../recovery/recovery-orders.ts";
import { isName } from "../task/settings.ts";
import { checkedBy, duration } from "./arguments.ts";

export interface StaleFilters {
  readonly after?: number;
  readonly name?: string;
  readonly queue?: string;
  readonly replica?: string;
}

export function addStaleFilters(command: Command): void {
  command
    .optionsGroup("Filters:")
    .option(
      "--after <duration>",
      "how long the owner must have been silent (default: the workers' own thresholds; never less than they take to stop)",
      duration(isStaleAfter),
    )
    .option("--name <name>", "tasks of this name", checkedBy(isName))
    .option("--queue <queue>", "tasks of this queue", checkedBy(isName))
    .option("--replica <id>", "tasks that this replica holds")
    .optionsGroup("Options:");
}

/** Without them an empty answer is about all tasks. */
export function hasStaleFilters({ name, queue, replica }: StaleFilters): boolean {
  return name !== undefined || queue !== undefined || replica !== undefined;
}

export function toStaleQuery({ after, name, queue, replica }: StaleFilters): InputOf<"recovery.stale"> {
  return { after, name, queue, replicaId: replica };
}

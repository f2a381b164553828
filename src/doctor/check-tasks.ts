/** Whether the workers that are here have the same definition of each task. */
import type { Database } from "../database/database.ts";
import { type KnownTask, readKnownTasks } from "../sql/definitions.ts";
import { type Finding, good, skipped, warning } from "./finding.ts";

const MOST_NAMES = 5;

export async function checkTasks(database: Database): Promise<Finding> {
  return judgeTasks(await readKnownTasks(database));
}

export function judgeTasks(tasks: readonly KnownTask[]): Finding {
  if (tasks.length === 0) return skipped("tasks", "no worker is online");
  const differing = tasks.filter(({ versions }) => versions > 1).map(({ name }) => `"${name}"`);
  if (differing.length > 0) {
    const more = differing.length > MOST_NAMES ? ` and ${differing.length - MOST_NAMES} more` : "";
    const names = `${differing.slice(0, MOST_NAMES).join(", ")}${more}`;
    const found = `the workers that are online have different definitions of ${names}; each runs by its own, and recovery goes by that of the last worker that started`;
    const advice = "During a rollout nothing has to be done. Otherwise start all workers with the same code.";
    return warning("tasks", found, advice);
  }
  const known = tasks.length === 1 ? "the one task" : `all ${tasks.length} tasks`;
  return good("tasks", `the workers that are online have the same definition of ${known}`);
}

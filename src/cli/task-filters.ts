/** The options by which tasks are chosen, shared by the commands that list, cancel and retry them. */
import type { Command } from "commander";
import { Option } from "commander";
import type { InputOf } from "../operations/operations.ts";
import { isName } from "../task/settings.ts";
import { TASK_STATES, type TaskState } from "../task/states.ts";
import { checkedBy, type Since, since } from "./arguments.ts";
import type { Asking } from "./asking.ts";
import { momentOf } from "./times.ts";

export interface TaskFilters {
  readonly state?: TaskState;
  readonly name?: string;
  readonly queue?: string;
  readonly replica?: string;
  readonly errorCode?: string;
  readonly since?: Since;
}

export function addTaskFilters(command: Command): void {
  command
    .optionsGroup("Filters:")
    .addOption(new Option("--state <state>", "tasks in this state").choices(TASK_STATES))
    .option("--name <name>", "tasks of this name", checkedBy(isName))
    .option("--queue <queue>", "tasks of this queue", checkedBy(isName))
    .option("--replica <id>", "tasks that this replica holds or ended")
    .option("--error-code <code>", "tasks that ended with this error")
    .option("--since <when>", "tasks enqueued since: a duration such as 15m, or an ISO 8601 time", since)
    .optionsGroup("Options:");
}

export function hasFilters(options: TaskFilters): boolean {
  const { state, name, queue, replica, errorCode, since: from } = options;
  return [state, name, queue, replica, errorCode, from].some((filter) => filter !== undefined);
}

type TaskQuery = Omit<InputOf<"tasks.list">, "limit" | "before">;

export async function toTaskQuery(options: TaskFilters, asking: Asking): Promise<TaskQuery> {
  const { state, name, queue, replica, errorCode } = options;
  const createdAfter = await momentOf(options.since, asking);
  return { state, name, queue, replicaId: replica, errorCode, createdAfter };
}

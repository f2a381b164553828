/** `everbeat tasks`: the group of commands about tasks. */
import type { Command } from "commander";
import { type Cli, showExamples } from "../command.ts";
import { addTasksCancel } from "./tasks-cancel.ts";
import { addTasksList } from "./tasks-list.ts";
import { addTasksQuarantined } from "./tasks-quarantined.ts";
import { addTasksRetry } from "./tasks-retry.ts";
import { addTasksReview } from "./tasks-review.ts";
import { addTasksShow } from "./tasks-show.ts";

export function addTasks(cli: Cli, program: Command): void {
  const tasks = program
    .command("tasks")
    .description("list, show, cancel, retry and review tasks")
    .helpGroup("Look and act:")
    .helpCommand(false);
  const commands = [addTasksList, addTasksShow, addTasksCancel, addTasksRetry, addTasksReview, addTasksQuarantined];
  for (const add of commands) add(cli, tasks);
  showExamples(tasks, [
    "everbeat tasks list --state failed --since 1h",
    "everbeat tasks show 0198c6f0-5a5e-7c3e-9d55-0b7f3c1f2a11",
  ]);
}

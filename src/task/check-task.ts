/** Refuses what is no task where a call is given one: plain JavaScript, or the task's name instead of the task. */
import { describe } from "../config/checks.ts";
import type { Problems } from "../config/problems.ts";
import type { AnyTask } from "./define-task.ts";

/** `where` is what the call calls it. */
export function checkTask(task: AnyTask | undefined, problems: Problems, where = "the first argument"): void {
  if (typeof task?.runBatch !== "function")
    problems.add("", `${where} must be a task made by defineTask, not ${describe(task)}`);
}

/** Which states an order to tasks can change anything about. Pure. */
import type { TaskState } from "../task/states.ts";

export type TaskOrder = "cancel" | "retry" | "retry by force";

const ORDERABLE: Readonly<Record<TaskOrder, readonly TaskState[]>> = {
  cancel: ["pending", "claimed", "running"],
  retry: ["pending", "failed"],
  "retry by force": ["pending", "failed", "claimed", "running"],
};

/** What is wrong with ordering this of tasks in that state; undefined where nothing is. */
export function stateProblem(order: TaskOrder, state: TaskState | undefined): string | undefined {
  if (state === undefined || ORDERABLE[order].includes(state)) return undefined;
  if (order === "cancel")
    return `a task that is ${state} has ended and cannot be cancelled; pending, claimed and running ones can`;
  if (ORDERABLE["retry by force"].includes(state))
    return `a worker holds a task that is ${state}; force takes it away from there and runs it again`;
  return `a task that is ${state} cannot be run again; failed and pending ones can, and with force also claimed and running ones`;
}

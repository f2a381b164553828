/** What is worth saying about a task besides its state, in a few words. */
import type { TaskSummary } from "../index.ts";
import { inOneLine } from "../task/error-record.ts";
import { fromNow, lasting } from "./times.ts";

export function remarkOn(task: TaskSummary, now: Date): string {
  switch (task.state) {
    case "pending":
      return remarkOnPending(task, now);
    case "claimed":
      return `claim ${task.claimId}, waits for a slot`;
    case "running":
      return `${task.isCancelling ? "being cancelled, " : ""}claim ${task.claimId}, for ${lasting(task.startedAt, now)}`;
    case "completed":
      return `took ${lasting(task.startedAt, task.endedAt)}`;
    case "failed":
    case "cancelled":
    case "expired":
      return task.error ? inOneLine(task.error) : "";
  }
}

function remarkOnPending(task: TaskSummary, now: Date): string {
  const remarks: string[] = [];
  if (task.isUnknown) remarks.push("no worker that is online knows it");
  if (task.isParked) remarks.push("waits for its exclusive key");
  if (task.runAt > now) remarks.push(`due ${fromNow(task.runAt, now)}`);
  return remarks.join(", ");
}

/** What the database's own `enqueue` refuses, as the errors that the API throws for the same reasons. */
import { InvalidOptionsError } from "../config/problems.ts";
import { databaseError } from "../database/database-error.ts";
import { DuplicateTaskError } from "../task/errors.ts";
import type { TaskId } from "../task/ids.ts";

export function asEnqueueError(error: unknown): unknown {
  const refusal = databaseError(error);
  if (refusal?.code === "EB003") {
    const problems = (error as Error).message.replace(/^task \S+ was not enqueued: /, "");
    return new InvalidOptionsError("The task was not enqueued: it", problems.split("; "));
  }
  if (refusal?.code !== "EB002" || refusal.detail === undefined) return error;
  const { name, uniqueKey, holder } = JSON.parse(refusal.detail) as { name: string; uniqueKey: string; holder: TaskId };
  return new DuplicateTaskError(name, uniqueKey, holder);
}

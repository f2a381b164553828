/** What the database refuses to enqueue, as errors that say why. */
import { InvalidOptionsError } from "../config/problems.ts";
import { databaseError } from "../database/database-error.ts";
import { DatabaseFullError } from "../database/errors.ts";
import { DuplicateTaskError, IdTakenError } from "../task/errors.ts";
import type { TaskId } from "../task/ids.ts";

const DUPLICATE = "EB002";
const INVALID = "EB003";
const ID_TAKEN = "EB009";
const DISK_FULL = "53100";

export function asEnqueueError(error: unknown): unknown {
  const { code, detail } = databaseError(error) ?? {};
  if (code === DISK_FULL) return new DatabaseFullError((error as Error).message, { cause: error });
  if (detail === undefined) return error;
  if (code === INVALID) {
    return new InvalidOptionsError("The task was not enqueued: it", JSON.parse(detail) as string[]);
  }
  if (code === ID_TAKEN) {
    const { name, id, holder } = JSON.parse(detail) as { name: string; id: TaskId; holder: string };
    return new IdTakenError(name, id, holder);
  }
  if (code !== DUPLICATE) return error;
  const { name, uniqueKey, holder } = JSON.parse(detail) as { name: string; uniqueKey: string; holder: TaskId };
  return new DuplicateTaskError(name, uniqueKey, holder);
}

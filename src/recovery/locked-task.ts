/** Somebody's open transaction has locked a task's row: a handler's that stands still, or one that was prepared and not yet committed. */
import type { TaskId } from "../task/ids.ts";

/** It has the code that PostgreSQL gives to a lock that was not to be had, so that `isHeldUp` and `isLocked` take it for one. */
export class LockedTaskError extends Error {
  readonly code = "55P03";

  constructor(id: TaskId) {
    super(`Another transaction has locked task ${id}.`);
  }
}

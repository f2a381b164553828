/** Ids as options: what is no UUID is refused here, and not by the database. */
import { type Check, describe } from "../config/checks.ts";
import { Problems } from "../config/problems.ts";
import { isUuid, type TaskId } from "./ids.ts";

export const isTaskId = isIdOf("a task");
export const isReplicaId = isIdOf("a replica");

/** Comes out in small letters, as the database writes it. */
function isIdOf(what: string): Check<string> {
  return (value, path, problems) => {
    if (isUuid(value)) return value.toLowerCase();
    problems.add(path, `must be ${what}'s id (a UUID), not ${describe(value)}`);
    return undefined;
  };
}

/** Of tasks that are asked for by their ids. */
export function toTaskIds(given: readonly string[]): TaskId[] {
  const problems = new Problems();
  for (const id of given) if (!isUuid(id)) problems.add(JSON.stringify(id), "a task's id is a UUID");
  problems.throwIfAny("The task's id");
  return given.map((id) => id.toLowerCase() as TaskId);
}

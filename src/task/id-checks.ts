/** Ids as options: what is no UUID is refused here, and not by the database. */
import { type Check, describe } from "../config/checks.ts";
import { isUuid } from "./ids.ts";

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

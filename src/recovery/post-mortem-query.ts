/** Which post-mortems are wanted. */
import { type Check, checkOptions, describe, isInteger, isOneOf } from "../config/checks.ts";
import { Problems } from "../config/problems.ts";
import type { Database } from "../database/database.ts";
import { listPostMortems, type PostMortemKind, type PostMortemRow } from "../sql/post-mortems.ts";
import { isUuid } from "../task/ids.ts";
import { CAUSES, type Cause } from "./probable-cause.ts";

export interface PostMortemQuery {
  /** Its own number, or the id of the replica, the runner or the task that it is about. */
  of?: string | undefined;
  kind?: PostMortemKind | undefined;
  cause?: Cause | undefined;
  /** At most this many, the latest first (default 100). */
  limit?: number | undefined;
}

export const isSubject: Check<string> = (value, path, problems) => {
  if (typeof value === "string" && (isUuid(value) || /^\d{1,18}$/.test(value))) return value.toLowerCase();
  problems.add(
    path,
    `must be the number of a post-mortem or the id of a replica or a task (a UUID), not ${describe(value)}`,
  );
  return undefined;
};

export const POST_MORTEM_KINDS = ["replica", "runner", "attempt"] as const satisfies readonly PostMortemKind[];

export const POST_MORTEM_RULES = {
  kind: isOneOf(POST_MORTEM_KINDS),
  cause: isOneOf(CAUSES),
  limit: isInteger({ min: 1, max: 10_000 }),
};
const SHAPE = { ...POST_MORTEM_RULES, of: isSubject };

export async function findPostMortems(database: Database, query: PostMortemQuery): Promise<PostMortemRow[]> {
  const problems = new Problems();
  const { of, limit = 100, kind, cause } = checkOptions(query, SHAPE, { path: "", problems });
  problems.throwIfAny("The choice of post-mortems");
  const subject = of === undefined ? {} : isUuid(of) ? { about: of } : { id: of };
  return listPostMortems(database, { kind, cause, ...subject }, limit);
}

/** Rate limits of tasks and of queues: a budget of starts, earned back evenly over a time. Checked by the same rules. */

import { type Check, isDuration, isInteger, isOptions, isText, pathOf } from "../config/checks.ts";
import { exactDuration } from "../config/duration.ts";
import type { RateLimit } from "../sql/queues.ts";

/** A time stamp of the database counts microseconds, and a start costs at least one of them (see `is_countable`). */
const MICROSECONDS_PER_MS = 1_000;

const RATE_SHAPE = {
  limit: isInteger({ min: 1, max: 1_000_000 }),
  per: isDuration({ minMs: 1, maxMs: 365 * 86_400_000 }),
};

const isLimitAndPer: Check<RateLimit> = countable(RATE_SHAPE, "limit and per");

/** Of a queue. */
export const isRateLimit: Check<RateLimit> = (value, path, problems) => {
  if (typeof value !== "object" || value === null || !("key" in value)) return isLimitAndPer(value, path, problems);
  const { key: _, ...rest } = value;
  problems.add(
    pathOf(path, "key"),
    "a queue's rate limit has no key; the rate limit of a task, an option of enqueue, has one",
  );
  return isLimitAndPer(rest, path, problems);
};
/** Of tasks with this key. */
export const isKeyedRateLimit: Check<RateLimit & { readonly key: string }> = countable(
  { key: isText({ max: 512 }), ...RATE_SHAPE },
  "key, limit and per",
);

function countable<T extends RateLimit>(shape: Record<string, Check<unknown>>, parts: string): Check<T> {
  const check = isOptions(shape);
  return (value, path, problems) => {
    const isGiven = (part: string) => (value as Record<string, unknown>)[part] !== undefined;
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    if (isObject && !Object.keys(shape).every(isGiven)) problems.add(path, `needs ${parts}`);
    const given = check(value, path, problems) as (Omit<T, "perMs"> & { readonly per: number }) | undefined;
    if (given === undefined) return undefined;
    const { per: perMs, ...rest } = given;
    if (given.limit !== undefined && perMs !== undefined && given.limit > perMs * MICROSECONDS_PER_MS) {
      const most = perMs * MICROSECONDS_PER_MS;
      problems.add(path, `cannot be counted: at most ${most} starts in ${exactDuration(perMs)} (one per microsecond)`);
    }
    return { ...rest, perMs } as unknown as T;
  };
}

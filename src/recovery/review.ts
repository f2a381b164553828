/** The tasks whose worker died under them, or whose end the database has forgotten: they may have had part of their effects, so somebody should look. */
import { checkOptions, isBoolean, isInteger, isListOf, isText } from "../config/checks.ts";
import { Problems } from "../config/problems.ts";
import type { Database } from "../database/database.ts";
import { countNeedingReview, listReviews, markReviewed, type ReviewFilter, type ReviewTask } from "../sql/review.ts";
import { isTaskId } from "../task/id-checks.ts";
import type { TaskId } from "../task/ids.ts";
import { isName } from "../task/settings.ts";

export interface ReviewQuery {
  name?: string | undefined;
  queue?: string | undefined;
  ids?: readonly string[] | undefined;
  /** Also those that were reviewed (default false). */
  all?: boolean | undefined;
  /** At most this many, the latest first (default 100). */
  limit?: number | undefined;
}

export const REVIEW_RULES = {
  name: isName,
  queue: isName,
  ids: isListOf(isTaskId),
  all: isBoolean,
  limit: isInteger({ min: 1, max: 10_000 }),
};

export const isReviewNote = isText({ max: 2_000 });

export class ReviewOrders {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Tasks that failed as WORKER_CRASHED or END_FORGOTTEN and that nobody has reviewed since. */
  async list(query: ReviewQuery = {}): Promise<readonly ReviewTask[]> {
    const problems = new Problems();
    const { limit = 100, ...filter } = checkOptions(query, REVIEW_RULES, { path: "", problems });
    problems.throwIfAny("The list of tasks to review");
    return listReviews(this.#database, filter as ReviewFilter, limit);
  }

  count(): Promise<number> {
    return countNeedingReview(this.#database);
  }

  /** Takes these off the list; to run one again, `tasks.retry` it. Returns those that were on it, or had been. */
  async done(ids: readonly string[], options: { note?: string | undefined } = {}): Promise<readonly TaskId[]> {
    const problems = new Problems();
    const checked = isListOf(isTaskId)(ids, "ids", problems) ?? [];
    const { note } = checkOptions(options, { note: isReviewNote }, { path: "", problems });
    problems.throwIfAny("The review");
    return markReviewed(this.#database, checked as TaskId[], note);
  }
}

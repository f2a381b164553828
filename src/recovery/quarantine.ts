/** The tasks that are not tried again because they kill their workers. To run one again, `tasks.retry` it. */
import { checkOptions, isInteger, isListOf } from "../config/checks.ts";
import { Problems } from "../config/problems.ts";
import type { Database } from "../database/database.ts";
import { countQuarantined, listQuarantined, type QuarantinedTask, type QuarantineFilter } from "../sql/suspicion.ts";
import { isTaskId } from "../task/id-checks.ts";
import { isName } from "../task/settings.ts";

export interface QuarantineQuery {
  name?: string | undefined;
  queue?: string | undefined;
  ids?: readonly string[] | undefined;
  /** At most this many, the latest first (default 100). */
  limit?: number | undefined;
}

export const QUARANTINE_RULES = {
  name: isName,
  queue: isName,
  ids: isListOf(isTaskId),
  limit: isInteger({ min: 1, max: 10_000 }),
};

export class QuarantineOrders {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async list(query: QuarantineQuery = {}): Promise<readonly QuarantinedTask[]> {
    const problems = new Problems();
    const { limit = 100, ...filter } = checkOptions(query, QUARANTINE_RULES, { path: "", problems });
    problems.throwIfAny("The list of quarantined tasks");
    return listQuarantined(this.#database, filter as QuarantineFilter, limit);
  }

  count(): Promise<number> {
    return countQuarantined(this.#database);
  }
}

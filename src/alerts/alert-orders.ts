/** The alerts on record: those that are open, and what there was before. */
import { ALERT_KIND_NAMES, type AlertKind, type AlertRow } from "../alert-kinds.ts";
import { checkOptions, isBoolean, isInstant, isInteger, isOneOf, isText } from "../config/checks.ts";
import { Problems } from "../config/problems.ts";
import type { Database } from "../database/database.ts";
import { listAlerts } from "../sql/alerts.ts";

export interface AlertQuery {
  /** Only those that are open, or only those that are over (default: both). */
  open?: boolean | undefined;
  kind?: AlertKind | undefined;
  subject?: string | undefined;
  /** Those that are open, and those that were resolved since then. */
  since?: string | Date | undefined;
  /** The latest so many (default 100). */
  limit?: number | undefined;
}

const isWord = isText({ max: 10_000 });
export const ALERT_RULES = {
  open: isBoolean,
  kind: isOneOf(ALERT_KIND_NAMES),
  subject: isWord,
  since: isInstant,
  limit: isInteger({ min: 1, max: 10_000 }),
};

export class AlertOrders {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** The latest first. */
  async list(query?: AlertQuery): Promise<readonly AlertRow[]> {
    const problems = new Problems();
    const { since, limit = 100, ...filter } = checkOptions(query, ALERT_RULES, { path: "", problems });
    problems.throwIfAny("The list of alerts");
    return listAlerts(this.#database, { ...filter, limit, since: since === undefined ? undefined : new Date(since) });
  }

  /** Every time on record that this subject was in this trouble, the latest first. */
  history(
    kind: AlertKind,
    subject: string,
    options: { limit?: number | undefined } = {},
  ): Promise<readonly AlertRow[]> {
    return this.list({ ...options, kind, subject });
  }
}

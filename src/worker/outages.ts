/** Says once that the database was lost and once that it is back, however many statements noticed; and once what it refused. */
import { databaseError, isNotAllowed } from "../database/database-error.ts";
import { isLocked, isOutage } from "../database/transient.ts";
import type { Events } from "../events.ts";

/** Texts of refusals are remembered, so that each is told of once; not for ever, since they may name ids. */
const MOST_REFUSALS = 100;

export class Outages {
  readonly #events: Events;
  readonly #refusals = new Set<string>();
  #isOut = false;

  constructor(events: Events) {
    this.#events = events;
  }

  noticed(error: unknown, doing: string): void {
    if (isOutage(error) && !isNotAllowed(error)) this.#lost(error, doing);
    else this.#refused(error, doing);
  }

  over(doing: string): void {
    if (!this.#isOut) return;
    this.#isOut = false;
    this.#events.emit("database.back", { doing });
  }

  #lost(error: unknown, doing: string): void {
    if (this.#isOut) return;
    this.#isOut = true;
    this.#events.emit("database.lost", { error, doing });
  }

  /** The database is there, and does not take what it was given, or does not let us, or somebody has locked what it is about. */
  #refused(error: unknown, doing: string): void {
    const reason = databaseError(error)?.message ?? String(error);
    const refusal = `${doing}: ${reason}`;
    if (this.#refusals.has(refusal)) return;
    if (this.#refusals.size >= MOST_REFUSALS) this.#refusals.clear();
    this.#refusals.add(refusal);
    if (isLocked(error)) this.#events.emit("database.locked", { error, doing, reason });
    else this.#events.emit("database.refused", { error, doing, reason, what: isNotAllowed(error) ? "us" : "values" });
  }
}

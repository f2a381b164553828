/** Says once that the database was lost and once that it is back, however many statements noticed. */
import type { Events } from "../events.ts";

export class Outages {
  readonly #events: Events;
  #isOut = false;

  constructor(events: Events) {
    this.#events = events;
  }

  noticed(error: unknown, doing: string): void {
    if (this.#isOut) return;
    this.#isOut = true;
    this.#events.emit("database.lost", { error, doing });
  }

  over(doing: string): void {
    if (!this.#isOut) return;
    this.#isOut = false;
    this.#events.emit("database.back", { doing });
  }
}

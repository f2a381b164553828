/**
 * The alerts of a supervisor. One that is open is raised again now and then, because an alert that is old leaves the record: what nobody
 * resolves any more is to leave, and what still holds is not.
 */
import type { Database } from "../database/database.ts";
import { type NewAlert, raiseAlert, resolveAlerts } from "../sql/alerts.ts";
import type { DurableWords } from "./durable-words.ts";

export class OpenAlerts {
  readonly #database: Database;
  readonly #words: DurableWords;
  readonly #open = new Map<string, NewAlert>();

  constructor(database: Database, words: DurableWords) {
    this.#database = database;
    this.#words = words;
  }

  raise(alert: NewAlert): void {
    this.#open.set(keyOf(alert.kind, alert.subject), alert);
    void this.#words.say("raising an alert", () => raiseAlert(this.#database, alert));
  }

  resolve(kind: string, subject: string): void {
    this.#open.delete(keyOf(kind, subject));
    void this.#words.say("resolving an alert", () => resolveAlerts(this.#database, kind, subject));
  }

  async raiseAgain(): Promise<void> {
    for (const alert of this.#open.values()) await raiseAlert(this.#database, alert);
  }
}

function keyOf(kind: string, subject: string): string {
  return `${kind} ${subject}`;
}

/**
 * The alerts of a supervisor. One that is open is raised again now and then, because an alert that is old leaves the record: what nobody
 * resolves any more is to leave, and what still holds is not.
 *
 * About each subject one statement at a time is under way, and each try writes what is wanted by then. So what was wanted last is written last.
 */
import type { Database } from "../database/database.ts";
import { type NewAlert, raiseAlert, resolveAlerts } from "../sql/alerts.ts";
import type { DurableWords } from "./durable-words.ts";

/** An object of its own for each call, by which it is seen whether another came meanwhile. */
interface Wish {
  readonly alert: Pick<NewAlert, "kind" | "subject">;
  /** Undefined: it is to be resolved. */
  readonly raise: NewAlert | undefined;
}

export class OpenAlerts {
  readonly #database: Database;
  readonly #words: DurableWords;
  readonly #open = new Map<string, NewAlert>();
  readonly #wishes = new Map<string, Wish>();
  readonly #writing = new Map<string, Promise<void>>();

  constructor(database: Database, words: DurableWords) {
    this.#database = database;
    this.#words = words;
  }

  raise(alert: NewAlert): void {
    this.#open.set(keyOf(alert), alert);
    void this.#want({ alert, raise: alert });
  }

  resolve(kind: string, subject: string): void {
    const alert = { kind, subject };
    this.#open.delete(keyOf(alert));
    void this.#want({ alert, raise: undefined });
  }

  async raiseAgain(): Promise<void> {
    await Promise.all([...this.#open.values()].map((alert) => this.#want({ alert, raise: alert })));
  }

  #want(wish: Wish): Promise<void> {
    const key = keyOf(wish.alert);
    this.#wishes.set(key, wish);
    const writing = this.#writing.get(key) ?? this.#write(key);
    this.#writing.set(key, writing);
    return writing;
  }

  async #write(key: string): Promise<void> {
    let written: Wish | undefined;
    do {
      written = undefined;
      const isRaising = this.#wishes.get(key)?.raise !== undefined;
      await this.#words.say(isRaising ? "raising an alert" : "resolving an alert", () => {
        written = this.#wishes.get(key) as Wish;
        const { alert, raise } = written;
        return raise ? raiseAlert(this.#database, raise) : resolveAlerts(this.#database, alert.kind, alert.subject);
      });
      // Undefined: the supervisor has ended, and nothing was written.
    } while (written && written !== this.#wishes.get(key));
    this.#wishes.delete(key);
    this.#writing.delete(key);
  }
}

function keyOf({ kind, subject }: Pick<NewAlert, "kind" | "subject">): string {
  return `${kind} ${subject}`;
}

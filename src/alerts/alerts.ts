/**
 * The alerts that a process keeps open. Whoever raises or resolves one says so and goes on:
 *
 *   raise, resolve ──▶ the last word about each subject ──▶ one statement for all that is unwritten ──▶ database
 *                              ▲ each minute: all that is open, once more
 *
 * One statement is under way at a time, so what was said last is written last. What cannot be written while the database is away is written
 * when it is back. An open alert is said again each minute: one that has left the record comes back, and sweeps know that it is kept.
 *
 * What must be in a transaction, and what is met again in each sweep anyway, is raised by `raiseAlert` (sql/alerts.ts) instead.
 */
import type { AlertKind, NewAlert } from "../alert-kinds.ts";
import { createBackoff } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import { inHalves } from "../database/in-halves.ts";
import { isAboutSomeRows, isLocked, isOutage } from "../database/transient.ts";
import { SERVICES } from "../services/list.ts";
import { createService, type Service, type ServiceRun } from "../services/service.ts";
import { type AlertWord, type WordBecame, writeAlerts } from "../sql/alerts.ts";

const { everyMs: SAID_AGAIN_MS } = SERVICES["open alerts"];
const AT_ONCE_MOST = 200;

/** The last word about a subject. */
interface Said {
  readonly word: AlertWord;
  readonly written: (isNew: boolean) => void;
  isWritten: boolean;
}

export interface AlertsParts {
  readonly database: Database;
  /** The database does not take an alert. That it is away is told by others. */
  readonly onRefused: (error: unknown) => void;
}

export class Alerts {
  readonly name = "open alerts";
  readonly #parts: AlertsParts;
  /** Begins with the first word. */
  readonly #service: Service;
  /** Of all that are open, and of those that are to be resolved still. */
  readonly #said = new Map<string, Said>();
  readonly #stopping = new AbortController();
  #writing: Promise<void> | undefined;

  constructor(parts: AlertsParts) {
    this.#parts = parts;
    this.#service = createService({
      ...{ name: "open alerts", intervalMs: SAID_AGAIN_MS, firstAfterMs: SAID_AGAIN_MS, pauseMs: () => SAID_AGAIN_MS },
      keepsProcess: false,
      runOnce: () => this.sayAgain(),
      // What fails was told where it was written.
      onError: () => {},
    });
  }

  get lastRun(): ServiceRun | undefined {
    return this.#service.lastRun;
  }

  /** Resolves when it is written: true if no such alert was open. Nobody needs to wait for it. */
  raise(alert: NewAlert): Promise<boolean> {
    return this.#say({ kind: alert.kind, subject: alert.subject, raise: alert, isAnew: true });
  }

  resolve(kind: AlertKind, subject: string): void {
    void this.#say({ kind, subject, raise: undefined, isAnew: true });
  }

  /** What this process has raised and not resolved, whether it is written or not. */
  isOpen(kind: AlertKind, subject: string): boolean {
    return this.#said.get(keyOf({ kind, subject }))?.word.raise !== undefined;
  }

  /** Resolves when all that was said is on record. */
  async written(): Promise<void> {
    while (this.#writing) await this.#writing;
  }

  /** All that is open, once more. */
  sayAgain(): Promise<void> {
    for (const [key, said] of this.#said) {
      if (said.isWritten) this.#said.set(key, { ...said, word: { ...said.word, isAnew: false }, isWritten: false });
    }
    this.#write();
    return this.written();
  }

  /** Nothing is written any more. What is open stays so, until somebody else resolves it. */
  stop(): void {
    this.#stopping.abort();
    void this.#service.stop();
    for (const { written } of this.#said.values()) written(false);
    this.#said.clear();
  }

  #say(word: AlertWord): Promise<boolean> {
    if (this.#stopping.signal.aborted) return Promise.resolve(false);
    const key = keyOf(word);
    this.#said.get(key)?.written(false);
    return new Promise((written) => {
      this.#said.set(key, { word, written, isWritten: false });
      this.#write();
      this.#service.start();
    });
  }

  #write(): void {
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
  }

  async #writeAll(): Promise<void> {
    const backoff = createBackoff({ firstMs: 50, maxMs: 2_000 });
    // What is said in the same turn of the loop goes along.
    await undefined;
    for (let batch = this.#unwritten(); batch.length > 0; batch = this.#unwritten()) {
      if (await this.#tryToWrite(batch)) backoff.reset();
      else await backoff.pause(this.#stopping.signal);
    }
  }

  #unwritten(): Said[] {
    return [...this.#said.values()].filter(({ isWritten }) => !isWritten).slice(0, AT_ONCE_MOST);
  }

  /** False: something of it is to be tried again after a pause. */
  async #tryToWrite(batch: readonly Said[]): Promise<boolean> {
    const { database, onRefused } = this.#parts;
    const write = async (some: readonly Said[]) => {
      const became = await writeAlerts(
        database,
        some.map(({ word }) => word),
      );
      return some.map((said, place) => this.#settle(said, became[place]));
    };
    try {
      const done = await inHalves(batch, write, async (said, error) => [this.#onRefused(said, error)], isAboutSomeRows);
      return done.every((isDone) => isDone);
    } catch (error) {
      if (!isOutage(error)) onRefused(error);
      return false;
    }
  }

  #settle(said: Said, became: WordBecame | undefined): boolean {
    said.written(became === "new");
    if (became === "locked") return false;
    said.isWritten = true;
    if (became === "resolved") this.#forget(said);
    return true;
  }

  /** What is refused is said again in a minute, so that it is not lost. */
  #onRefused(said: Said, error: unknown): boolean {
    said.written(false);
    if (isLocked(error)) return false;
    this.#parts.onRefused(error);
    said.isWritten = true;
    return true;
  }

  #forget(said: Said): void {
    const key = keyOf(said.word);
    if (this.#said.get(key) === said) this.#said.delete(key);
  }
}

function keyOf({ kind, subject }: Pick<AlertWord, "kind" | "subject">): string {
  return `${kind} ${subject}`;
}

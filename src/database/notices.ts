/**
 * Notices from the database (LISTEN/NOTIFY) on a connection of their own, reconnected when it breaks.
 * They only ever make something happen sooner: whoever subscribes also looks by itself from time to time.
 */
import type pg from "pg";
import { createBackoff } from "./backoff.ts";
import { type Database, runOn, type Store } from "./database.ts";
import { endClient } from "./end-client.ts";

export type NoticeWord = "ready" | "ended" | "changed" | "happened" | "alert";
type Handler = (object: string) => void;

export class Notices {
  readonly #database: Database;
  readonly #handlers = new Map<NoticeWord, Set<Handler>>();
  readonly #onReconnect = new Set<() => void>();
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;
  #client: pg.Client | undefined;
  #session: Store | undefined;
  #firstTry: PromiseWithResolver | undefined;
  #isListening = false;
  #isImpossible = false;

  constructor(database: Database) {
    this.#database = database;
  }

  get isListening(): boolean {
    return this.#isListening;
  }

  /** A pooler that gives each transaction another session: notices would go to whoever has that session then. */
  get isImpossible(): boolean {
    return this.#isImpossible;
  }

  /** The session that they come on, while there is one: another one after every reconnect. What is locked on it ends with it. */
  get session(): Store | undefined {
    return this.#session;
  }

  /** Resolves when the first try has either succeeded or failed: nobody has to wait for notices. */
  async start(): Promise<void> {
    if (!this.#loop) {
      this.#firstTry = withResolver();
      this.#loop = this.#listenForever();
    }
    await this.#firstTry?.promise;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    if (this.#client) await endClient(this.#client);
    await this.#loop;
  }

  on(word: NoticeWord, handler: Handler): () => void {
    const handlers = this.#handlers.get(word) ?? new Set();
    this.#handlers.set(word, handlers);
    handlers.add(handler);
    return () => handlers.delete(handler);
  }

  /** Notices were missed while the connection was away: look for yourself. */
  onReconnect(handler: () => void): () => void {
    this.#onReconnect.add(handler);
    return () => this.#onReconnect.delete(handler);
  }

  async #listenForever(): Promise<void> {
    const backoff = createBackoff({ firstMs: 100, maxMs: 5_000 });
    while (!this.#stopping.signal.aborted && !this.#isImpossible) {
      try {
        await this.#listenOnce(() => backoff.reset());
      } catch {
        // The same outage is reported by whoever has a statement to run; here it is only tried again.
      }
      this.#isListening = false;
      this.#firstTry?.resolve();
      if (!this.#isImpossible) await backoff.pause(this.#stopping.signal);
    }
    this.#firstTry?.resolve();
  }

  async #listenOnce(onConnected: () => void): Promise<void> {
    const { client, session } = await this.#database.ownSession();
    this.#client = client;
    try {
      const gone = new Promise<void>((resolve) => {
        client.once("end", resolve);
        client.once("error", () => resolve());
      });
      if (!session.isDirect) {
        this.#isImpossible = true;
        return;
      }
      client.on("notification", ({ payload }) => this.#deliver(payload ?? ""));
      await client.query(`listen ${this.#database.schema}`);
      this.#isListening = true;
      this.#session = oneAtATime(client, this.#database.schema);
      this.#firstTry?.resolve();
      onConnected();
      for (const handler of this.#onReconnect) handler();
      if (this.#stopping.signal.aborted) return;
      await gone;
    } finally {
      this.#client = undefined;
      this.#session = undefined;
      await endClient(client);
    }
  }

  #deliver(payload: string): void {
    const space = payload.indexOf(" ");
    const handlers = this.#handlers.get(payload.slice(0, space) as NoticeWord);
    for (const handler of handlers ?? []) handler(payload.slice(space + 1));
  }
}

/** Several may ask at once, and the driver is to be given no statement before the one before has ended. */
function oneAtATime(client: pg.Client, schema: string): Store {
  let before: Promise<unknown> = Promise.resolve();
  return {
    schema,
    query<Row>(text: string, values?: readonly unknown[]) {
      const asked = before.then(() => runOn<Row>(client, text, values));
      before = asked.catch(() => {});
      return asked;
    },
  };
}

interface PromiseWithResolver {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

function withResolver(): PromiseWithResolver {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

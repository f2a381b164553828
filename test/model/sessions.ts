/**
 * Real connections for the hearts. One whose session has ended is used again with all its locks given up, which is what the
 * server does at the end of a session, without the wait for it.
 */
import pg from "pg";
import { runOn, type Store } from "../../src/database/database.ts";

export class Session {
  readonly store: Store;
  readonly #client: pg.Client;

  constructor(client: pg.Client, schema: string) {
    this.#client = client;
    this.store = {
      schema,
      query: <Row>(text: string, values: readonly unknown[] = []) => runOn<Row>(client, text, values),
    };
  }

  async end(): Promise<void> {
    await this.#client.query("select pg_advisory_unlock_all()");
  }

  close(): Promise<void> {
    return this.#client.end();
  }
}

export class Sessions {
  readonly #url: string;
  readonly #schema: string;
  readonly #all: Session[] = [];
  readonly #spare: Session[] = [];

  constructor(url: string, schema: string) {
    this.#url = url;
    this.#schema = schema;
  }

  async open(): Promise<Session> {
    const spare = this.#spare.pop();
    if (spare) return spare;
    const client = new pg.Client(this.#url);
    await client.connect();
    const session = new Session(client, this.#schema);
    this.#all.push(session);
    return session;
  }

  async end(session: Session): Promise<void> {
    await session.end();
    this.#spare.push(session);
  }

  /** After a run that may have ended anywhere. */
  async endAll(): Promise<void> {
    for (const session of this.#all) await session.end();
    this.#spare.splice(0, Number.POSITIVE_INFINITY, ...this.#all);
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((session) => session.close()));
  }
}

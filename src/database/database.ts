/** The database as the rest of Everbeat sees it: statements in, rows out, and a schema that qualifies every name. */
import pg from "pg";
import type { ConnectionSource, Connections } from "./connections.ts";
import { ClosedError, NoReplyError } from "./errors.ts";
import { quoteIdentifier } from "./identifiers.ts";
import { toParameter } from "./parameters.ts";
import { PreparedNames } from "./prepared-names.ts";
import { toLists, toObjects } from "./rows.ts";
import { isTransient } from "./transient.ts";

/** Something that runs statements on tables of one schema: the database itself, or a transaction. */
export interface Store {
  /** The schema's name, quoted: goes before every table and function. */
  readonly schema: string;
  /** `often`: the same text comes again and again, and the server should keep what it made of it. */
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[], use?: "often"): Promise<Row[]>;
}

export interface Database extends Store {
  readonly schemaName: string;
  /** Asked often, and with many rows: each is the list of its values, to be made here into what it is to be, once. */
  queryLists(text: string, values: readonly unknown[]): Promise<unknown[][]>;
  transaction<T>(work: (tx: Store) => Promise<T>): Promise<T>;
  dedicated(): Promise<pg.Client>;
  /**
   * The same database, for statements of our own whose reply must not be waited for for ever: packets may be swallowed
   * without anybody being told. Without a reply in that time the connection is closed and the statement counts as lost.
   */
  withReplyWithin(ms: number): Database;
  readonly source: ConnectionSource;
  close(): Promise<void>;
}

export function createDatabase(connections: Connections, schemaName: string): Database {
  const schema = quoteIdentifier(schemaName);
  const names = new PreparedNames();
  let isClosed = false;
  const refuseIfClosed = () => {
    if (isClosed) throw new ClosedError();
  };
  /** By a name that the server knows it by, as long as names are of use. */
  const asNamed = async <T>(text: string, run: (name?: string) => Promise<T>): Promise<T> => {
    const name = names.of(text);
    try {
      return await run(name);
    } catch (error) {
      if (name === undefined || !names.isToBlameFor(error)) throw error;
      names.doWithout();
      return run();
    }
  };
  const withLimit = (replyWithinMs: number | undefined): Database => ({
    schema,
    schemaName,
    async query(text, values, use) {
      refuseIfClosed();
      return withClient(connections, (client) => {
        if (use !== "often") return runOn(client, text, values, { replyWithinMs });
        return asNamed(text, (name) => runOn(client, text, values, { replyWithinMs, name }));
      });
    },
    async queryLists(text, values) {
      refuseIfClosed();
      return withClient(connections, (client) =>
        asNamed(text, async (name) => toLists(await runWith(client, text, values, { replyWithinMs, name }))),
      );
    },
    async transaction(work) {
      refuseIfClosed();
      return withClient(connections, (client) => runTransaction(client, { schema, replyWithinMs }, work));
    },
    dedicated: () => connections.dedicated(),
    withReplyWithin: withLimit,
    source: connections.source,
    close() {
      isClosed = true;
      return connections.close();
    },
  });
  return withLimit(undefined);
}

async function withClient<T>(connections: Connections, use: (client: pg.ClientBase) => Promise<T>): Promise<T> {
  const client = await connections.acquire();
  let isBroken = false;
  try {
    return await use(client);
  } catch (error) {
    isBroken = isTransient(error);
    throw error;
  } finally {
    connections.release(client, isBroken);
  }
}

async function runTransaction<T>(
  client: pg.ClientBase,
  { schema, replyWithinMs }: { schema: string; replyWithinMs: number | undefined },
  work: (tx: Store) => Promise<T>,
): Promise<T> {
  const query: Store["query"] = (text, values) => runOn(client, text, values, { replyWithinMs });
  await query("begin");
  try {
    const result = await work({ schema, query });
    await query("commit");
    return result;
  } catch (error) {
    // The connection is closed for it, and the transaction with it: no reply would come to a rollback.
    if (!isTransient(error)) await query("rollback").catch(() => {});
    throw error;
  }
}

interface Asking {
  readonly replyWithinMs?: number | undefined;
  readonly name?: string | undefined;
}

/** Also for connections outside the pool. */
export async function runOn<Row>(
  client: pg.ClientBase,
  text: string,
  values?: readonly unknown[],
  asking: Asking = {},
): Promise<Row[]> {
  if (values) return toObjects(await runWith(client, text, values, asking));
  // No values, no prepared statement: only so may one text hold several statements, as migrations do.
  return (await ask(client, { text, types: TYPES }, asking.replyWithinMs)).rows as Row[];
}

function runWith(
  client: pg.ClientBase,
  text: string,
  values: readonly unknown[],
  { replyWithinMs, name }: Asking,
): Promise<pg.QueryArrayResult> {
  const statement = { text, values: values.map(toParameter), types: TYPES, rowMode: "array", ...(name && { name }) };
  return ask(client, statement, replyWithinMs);
}

async function ask(client: pg.ClientBase, statement: pg.QueryConfig, ms?: number): Promise<pg.QueryArrayResult> {
  try {
    return await replyTo(client, statement, ms);
  } catch (error) {
    // From here it leads to whoever asked; from where the driver made it, only to the driver.
    if (error instanceof Error) Error.captureStackTrace(error);
    throw error;
  }
}

/**
 * By a callback: replies to the driver's promises were seen to outlive every young collection and to wait for a full one, which
 * was a fifth of what a busy worker cost. And with a timer of our own, since the caller's pool may be of a driver that knows no
 * time limit for one statement.
 */
function replyTo(client: pg.ClientBase, statement: pg.QueryConfig, ms?: number): Promise<pg.QueryArrayResult> {
  return new Promise((resolve, reject) => {
    const timer = ms === undefined ? undefined : setTimeout(() => reject(new NoReplyError(ms)), ms);
    client.query(statement, (error: Error | null, result) => {
      clearTimeout(timer);
      if (error) reject(error);
      else resolve(result as unknown as pg.QueryArrayResult);
    });
  });
}

/** The driver's own types, whatever parsers the application has set globally for its own needs. */
const TEXT_ARRAY = 1009;
const TYPES = (() => {
  const parsers = new Map<number, (text: string) => unknown>([
    [20, (text) => text], // int8
    [16, (text) => text === "t"],
    [21, Number], // int2
    [23, Number], // int4
    [700, Number], // float4
    [701, Number], // float8
    [114, (text) => JSON.parse(text)],
    [3802, (text) => JSON.parse(text)],
    [1184, (text) => new Date(text)], // timestamptz
  ]);
  const getTypeParser = (oid: number, format?: string) => {
    const parser = parsers.get(oid);
    if (parser) return parser;
    if (oid === TEXT_ARRAY) return pg.types.getTypeParser(TEXT_ARRAY as never, format as "text");
    return (text: string) => text;
  };
  return { getTypeParser } as unknown as pg.CustomTypesConfig;
})();

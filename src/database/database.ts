/** The database as the rest of Everbeat sees it: statements in, rows out, and a schema that qualifies every name. */
import pg from "pg";
import type { ConnectionSource, Connections } from "./connections.ts";
import { ClosedError } from "./errors.ts";
import { quoteIdentifier } from "./identifiers.ts";
import { isTransient } from "./transient.ts";

/** Something that runs statements on tables of one schema: the database itself, or a transaction. */
export interface Store {
  /** The schema's name, quoted: goes before every table and function. */
  readonly schema: string;
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>;
}

export interface Database extends Store {
  readonly schemaName: string;
  transaction<T>(work: (tx: Store) => Promise<T>): Promise<T>;
  dedicated(): Promise<pg.Client>;
  readonly source: ConnectionSource;
  close(): Promise<void>;
}

export function createDatabase(connections: Connections, schemaName: string): Database {
  const schema = quoteIdentifier(schemaName);
  let isClosed = false;
  const refuseIfClosed = () => {
    if (isClosed) throw new ClosedError();
  };
  return {
    schema,
    schemaName,
    async query(text, values) {
      refuseIfClosed();
      return withClient(connections, (client) => runOn(client, text, values));
    },
    async transaction(work) {
      refuseIfClosed();
      return withClient(connections, (client) => runTransaction(client, schema, work));
    },
    dedicated: () => connections.dedicated(),
    source: connections.source,
    close() {
      isClosed = true;
      return connections.close();
    },
  };
}

async function withClient<T>(connections: Connections, use: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await connections.acquire();
  let broken: unknown;
  // A connection that breaks while it is out of the pool emits, and unheard that would end the process.
  const onError = (error: Error) => {
    broken = error;
  };
  client.on("error", onError);
  try {
    return await use(client);
  } catch (error) {
    if (isTransient(error)) broken = error;
    throw error;
  } finally {
    client.off("error", onError);
    client.release(broken !== undefined);
  }
}

async function runTransaction<T>(client: pg.PoolClient, schema: string, work: (tx: Store) => Promise<T>): Promise<T> {
  await client.query("begin");
  try {
    const result = await work({ schema, query: (text, values) => runOn(client, text, values) });
    await client.query("commit");
    return result;
  } catch (error) {
    await client.query("rollback").catch(() => {});
    throw error;
  }
}

/** Also for connections outside the pool. */
export async function runOn<Row>(client: pg.ClientBase, text: string, values?: readonly unknown[]): Promise<Row[]> {
  // No values, no prepared statement: only so may one text hold several statements, as migrations do.
  const result = await client.query({ text, ...(values ? { values: values as unknown[] } : {}), types: TYPES });
  return result.rows as Row[];
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

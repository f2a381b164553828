/** The database as the rest of Everbeat sees it: statements in, rows out, and a schema that qualifies every name. */
import pg from "pg";
import { describe } from "../config/checks.ts";
import { InvalidOptionsError } from "../config/problems.ts";
import type { ConnectionSource, Connections } from "./connections.ts";
import { ClosedError, NoReplyError, TimeNotReadableError, TransactionRolledBackError } from "./errors.ts";
import { quoteIdentifier } from "./identifiers.ts";
import { openTransaction } from "./open-transaction.ts";
import { toParameter } from "./parameters.ts";
import { PreparedNames } from "./prepared-names.ts";
import { toLists, toObjects } from "./rows.ts";
import type { DedicatedConnection } from "./session.ts";
import { sparing } from "./sparing.ts";
import { readTimestamp } from "./timestamps.ts";
import { breaksConnection, isCancelled, isRefusedForIsolation } from "./transient.ts";

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
  /**
   * A statement that commits by itself, and is asked often. `inTransaction`: what to ask with the same values where our statements
   * must each be in a transaction, in which nothing may commit.
   */
  queryCommitting(text: { alone: string; inTransaction: string }, values: readonly unknown[]): Promise<void>;
  /** In "read committed", whatever the default is. Throws unless it has been committed. `tx` is of use until the callback has ended. */
  transaction<T>(work: (tx: Store) => Promise<T>): Promise<T>;
  /** A connection outside the pool; whoever asked ends it. */
  dedicated(): Promise<pg.Client>;
  /** The same, with what is known of it. */
  ownSession(): Promise<DedicatedConnection>;
  /**
   * The same database, for statements of our own whose reply must not be waited for for ever: packets may be swallowed
   * without anybody being told. Without a reply in that time the connection is closed and the statement counts as lost.
   */
  withReplyWithin(ms: number): Database;
  /** The same database, for what can wait: it uses half of the pool at the most. In its transactions, ask `tx` only: another connection may not come. */
  sparing(): Database;
  readonly source: ConnectionSource;
  close(): Promise<void>;
}

/** `explain`: what to throw instead of an error of a statement. It asks over the connection that is at hand: there may be no other. */
export function createDatabase(
  pool: Connections,
  schemaName: string,
  explain: Parts["explain"] = async (error) => error,
): Database {
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
  const spared = sparing(pool);
  const over = (connections: Connections, replyWithinMs: number | undefined): Database => {
    const parts = { connections, schema, schemaName, explain };
    return {
      schema,
      schemaName,
      async query(text, values, use) {
        refuseIfClosed();
        return statementOn(parts, (framed) => {
          const run = (name?: string) =>
            inFrame({ ...framed, replyWithinMs }, () => runOn(framed.client, text, values, { replyWithinMs, name }));
          return use === "often" ? asNamed(text, run) : run();
        }) as Promise<never[]>;
      },
      async queryLists(text, values) {
        refuseIfClosed();
        return statementOn(parts, (framed) =>
          asNamed(text, (name) =>
            inFrame({ ...framed, replyWithinMs }, async () =>
              toLists(await runWith(framed.client, text, values, { replyWithinMs, name })),
            ),
          ),
        );
      },
      async queryCommitting(texts, values) {
        refuseIfClosed();
        await statementOn(parts, (framed) => {
          const text = framed.frame === undefined ? texts.alone : texts.inTransaction;
          return asNamed(text, (name) =>
            inFrame({ ...framed, replyWithinMs }, () => runWith(framed.client, text, values, { replyWithinMs, name })),
          );
        });
      },
      async transaction(work) {
        if (typeof work !== "function")
          throw new InvalidOptionsError("transaction()", [`must be given a function (tx) => …, not ${describe(work)}`]);
        refuseIfClosed();
        return withClient(connections, (client, onLeftOpen) => {
          const { begin: frame } = connections.sessionOf(client);
          const open = openTransaction((text, values) => runOn(client, text, values, { replyWithinMs }));
          const tx: Store = { schema, query: (text, values) => open.query(text, values) };
          const whyRolledBack = () => open.lastFailure;
          const framed = { client, frame, onLeftOpen, replyWithinMs, whyRolledBack };
          return inFrame(framed, () => open.during(() => work(tx))).catch((error) => explained(error, client, parts));
        });
      },
      dedicated: async () => (await connections.dedicated()).client,
      ownSession: () => connections.dedicated(),
      withReplyWithin: (ms) => over(connections, ms),
      sparing: () => over(spared, replyWithinMs),
      source: connections.source,
      close() {
        isClosed = true;
        return connections.close();
      },
    };
  };
  return over(pool, undefined);
}

interface Parts {
  readonly connections: Connections;
  readonly schema: string;
  readonly schemaName: string;
  readonly explain: (
    error: unknown,
    database: Pick<Database, "schema" | "schemaName" | "source" | "query">,
  ) => Promise<unknown>;
}

/**
 * One statement. Somebody may have changed the session since it was looked at: the caller, whose pool it is of, or an administrator, behind a
 * pooler. What is refused for its isolation level has written nothing and is repeated. What is cancelled may have been so by a time limit
 * that is new, and what cannot be read is of a form that is new: the next statement is to know of it. If that look fails, the connection is
 * closed, and the caller is told what happened first.
 */
function statementOn<T>(parts: Parts, use: (framed: Framed) => Promise<T>): Promise<T> {
  const { connections } = parts;
  return withClient(connections, async (client, onLeftOpen) => {
    const asFound = () => ({ client, frame: connections.sessionOf(client).frame, onLeftOpen });
    try {
      return await use(asFound());
    } catch (error) {
      if (isCancelled(error) || error instanceof TimeNotReadableError)
        await connections.lookAgain(client).catch(onLeftOpen);
      if (!isRefusedForIsolation(error)) return explained(error, client, parts);
      await connections.lookAgain(client);
      return use(asFound());
    }
  });
}

async function explained(error: unknown, client: pg.ClientBase, parts: Parts): Promise<never> {
  const { connections, schema, schemaName, explain } = parts;
  if (breaksConnection(error)) throw error;
  throw await explain(error, {
    ...{ schema, schemaName, source: connections.source },
    query: (text, values) => runOn(client, text, values),
  });
}

async function withClient<T>(
  connections: Connections,
  use: (client: pg.ClientBase, onLeftOpen: () => void) => Promise<T>,
): Promise<T> {
  const client = await connections.acquire();
  let isBroken = false;
  const onLeftOpen = () => {
    isBroken = true;
  };
  try {
    return await use(client, onLeftOpen);
  } catch (error) {
    isBroken ||= breaksConnection(error);
    throw error;
  } finally {
    connections.release(client, isBroken);
  }
}

interface Framed {
  readonly client: pg.ClientBase;
  /** How the transaction begins; without it the work needs none. */
  readonly frame: string | undefined;
  readonly replyWithinMs?: number | undefined;
  /** The error of a statement in it that the caller may have caught. */
  readonly whyRolledBack?: () => unknown;
  /** The transaction could not be ended: nobody else must get this connection. */
  readonly onLeftOpen?: () => void;
}

/** Also for connections outside the pool. */
export async function inFrame<T>(framed: Framed, work: () => Promise<T>): Promise<T> {
  const { client, frame, replyWithinMs, whyRolledBack, onLeftOpen } = framed;
  if (frame === undefined) return work();
  let result: T;
  try {
    await ask(client, { text: frame }, replyWithinMs);
    result = await work();
  } catch (error) {
    // The connection is closed for it, and the transaction with it: no reply would come to a rollback.
    if (!breaksConnection(error)) await ask(client, { text: "rollback" }, replyWithinMs).catch(() => onLeftOpen?.());
    throw error;
  }
  const { command } = await ask(client, { text: "commit" }, replyWithinMs);
  if (command === "ROLLBACK") throw new TransactionRolledBackError({ cause: whyRolledBack?.() });
  return result;
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
    [1184, readTimestamp],
  ]);
  const getTypeParser = (oid: number, format?: string) => {
    const parser = parsers.get(oid);
    if (parser) return parser;
    if (oid === TEXT_ARRAY) return pg.types.getTypeParser(TEXT_ARRAY as never, format as "text");
    return (text: string) => text;
  };
  return { getTypeParser } as unknown as pg.CustomTypesConfig;
})();

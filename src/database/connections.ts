/** Where connections come from: pools of our own over one or several addresses, or the caller's pool. */
import pg from "pg";
import { DatabaseUnavailableError } from "./errors.ts";
import { type Targets, withoutPassword } from "./targets.ts";

export interface Connections {
  /** From the pool; give it back with `release`, with an error to have it closed. */
  acquire(): Promise<pg.PoolClient>;
  /** Outside the pool, for LISTEN; the caller ends it. */
  dedicated(): Promise<pg.Client>;
  /** How another thread can connect to the same database. */
  readonly source: ConnectionSource;
  close(): Promise<void>;
}

export type ConnectionSource =
  | { readonly kind: "targets"; readonly targets: Targets }
  | { readonly kind: "config"; readonly config: pg.ClientConfig };

const CONNECT_TIMEOUT_MS = 10_000;
/** What is asked on a dedicated connection, and of a new one, is answered at once, or never. */
const SHORT_REPLY_MS = 30_000;
/** A connection on which nothing is heard is asked by the kernel for a sign after this long, ten times. */
const KEEP_ALIVE_AFTER_MS = 10_000;

export function ownConnections(
  targets: Targets,
  options: { max: number; client?: pg.ClientConfig | undefined },
): Connections {
  const configOf = (url: string): pg.PoolConfig => ({
    connectionString: url,
    max: options.max,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
    ...(url.includes("application_name=") ? {} : { application_name: "everbeat" }),
    ...options.client,
  });
  const pools = targets.urls.map((url) => quiet(new pg.Pool(configOf(url))));
  const verified = new WeakSet<object>();
  let current = 0;

  /** The first target that answers and has the wanted role, beginning with the one that had it last. */
  async function firstFitting<C extends pg.ClientBase>(
    connect: (index: number) => Promise<C>,
    drop: (client: C) => void,
  ): Promise<C> {
    const failures: string[] = [];
    let cause: unknown;
    for (let step = 0; step < pools.length; step++) {
      const index = (current + step) % pools.length;
      const name = () => withoutPassword(targets.urls[index] ?? "");
      let client: C | undefined;
      try {
        client = await connect(index);
        if (targets.role === "any" || verified.has(client) || (await isPrimary(client))) {
          verified.add(client);
          current = index;
          return client;
        }
        failures.push(`${name()}: it follows another server and is not the primary`);
        drop(client);
      } catch (error) {
        if (client) drop(client);
        cause = error;
        failures.push(`${name()}: ${reasonOf(error)}`);
      }
    }
    throw new DatabaseUnavailableError(failures, { cause });
  }

  return {
    source: { kind: "targets", targets },
    acquire: () =>
      firstFitting(
        (index) => acquireFrom(pools[index] as pg.Pool),
        (client) => client.release(true),
      ),
    dedicated: () =>
      firstFitting(
        (index) => connectDedicated(configOf(targets.urls[index] ?? "")),
        (client) => void client.end(),
      ),
    async close() {
      await Promise.all(pools.map((pool) => pool.end()));
    },
  };
}

/** The caller's own pool: used, never closed. LISTEN gets a connection of its own with the same settings. */
export function callersConnections(pool: pg.Pool): Connections {
  return {
    source: { kind: "config", config: visible(pool.options) },
    acquire: () => acquireFrom(pool),
    dedicated: () => connectDedicated(pool.options),
    async close() {},
  };
}

/** With the secrets too, which the driver hides from copies: a heart that lives on another thread needs them. */
function visible(options: pg.PoolOptions): pg.ClientConfig {
  const { password, ssl } = options;
  const withKey = ssl !== null && typeof ssl === "object" ? { ...ssl, key: ssl.key } : ssl;
  return {
    ...options,
    ...(password === undefined ? {} : { password }),
    ...(ssl === undefined ? {} : { ssl: withKey }),
  };
}

/**
 * With a listener from the very first moment: a connection that is ended as soon as it is made reports that together with
 * being ready, before a promise of it could have been awaited, and unheard that would end the process.
 */
function acquireFrom(pool: pg.Pool): Promise<pg.PoolClient> {
  return new Promise((resolve, reject) => {
    pool.connect((error, client, release) => {
      if (!client) return reject(error);
      const ignore = () => {};
      client.on("error", ignore);
      client.release = (reason) => {
        client.off("error", ignore);
        release(reason);
      };
      resolve(client);
    });
  });
}

export async function connectDedicated(config: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client({
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    ...config,
    query_timeout: SHORT_REPLY_MS,
  });
  // Without a listener, an error between two queries would end the process.
  client.on("error", () => {});
  await client.connect();
  return client;
}

async function isPrimary(client: pg.ClientBase): Promise<boolean> {
  const question = { text: "select pg_is_in_recovery() as follows", query_timeout: SHORT_REPLY_MS };
  const { rows } = await client.query<{ follows: boolean }>(question);
  return rows[0]?.follows === false;
}

/** An idle connection that breaks is replaced on the next use; unheard, its error would end the process. */
function quiet(pool: pg.Pool): pg.Pool {
  pool.on("error", () => {});
  return pool;
}

/** A name with several addresses fails with several errors in one that says nothing itself. */
function reasonOf(error: unknown): string {
  const { message, errors, code } = error as Partial<AggregateError & { code: string }>;
  if (message) return message;
  return (
    (errors ?? []).map((one: unknown) => (one instanceof Error ? one.message : String(one))).join(", ") ||
    String(code ?? error)
  );
}

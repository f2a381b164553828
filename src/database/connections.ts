/** Where connections come from: a pool of our own over one or several addresses, or the caller's pool. */
import pg from "pg";
import { endClient } from "./end-client.ts";
import { DatabaseUnavailableError } from "./errors.ts";
import { Pool } from "./pool.ts";
import { type Targets, withoutPassword } from "./targets.ts";

export interface Connections {
  /** To be given back. */
  acquire(): pg.ClientBase | Promise<pg.ClientBase>;
  /** One that is broken, as far as its user or anybody knows, is closed. */
  release(client: pg.ClientBase, isBroken: boolean): void;
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
const CLOSE_IDLE_AFTER_MS = 10_000;
/** What is asked on a dedicated connection, and of a new one, is answered at once, or never. */
const SHORT_REPLY_MS = 30_000;
/** A connection on which nothing is heard is asked by the kernel for a sign after this long, ten times. */
const KEEP_ALIVE_AFTER_MS = 10_000;

export function ownConnections(
  targets: Targets,
  options: { max: number; client?: pg.ClientConfig | undefined },
): Connections {
  const { urls } = targets;
  const configOf = (url: string): pg.ClientConfig => ({
    connectionString: url,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
    ...(url.includes("application_name=") ? {} : { application_name: "everbeat" }),
    ...options.client,
  });
  let current = 0;

  /** The first target that answers and has the wanted role, beginning with the one that had it last. */
  async function firstFitting(connectTo: (config: pg.ClientConfig) => Promise<pg.Client>): Promise<pg.Client> {
    const failures: string[] = [];
    let cause: unknown;
    // Others may find another one meanwhile.
    const first = current;
    for (let step = 0; step < urls.length; step++) {
      const index = (first + step) % urls.length;
      const url = urls[index] ?? "";
      let client: pg.Client | undefined;
      try {
        client = await connectTo(configOf(url));
        if (targets.role === "any" || (await isPrimary(client))) {
          current = index;
          return client;
        }
        failures.push(`${withoutPassword(url)}: it follows another server and is not the primary`);
        void endClient(client);
      } catch (error) {
        if (client) void endClient(client);
        cause = error;
        failures.push(`${withoutPassword(url)}: ${reasonOf(error)}`);
      }
    }
    throw new DatabaseUnavailableError(failures, { cause });
  }

  const pool = new Pool({
    max: options.max,
    connect: (watch) => firstFitting((config) => connect(config, watch)),
    waitMs: CONNECT_TIMEOUT_MS,
    idleMs: CLOSE_IDLE_AFTER_MS,
  });
  return {
    source: { kind: "targets", targets },
    acquire: () => pool.acquire(),
    release: (client, isBroken) => pool.release(client as pg.Client, isBroken),
    dedicated: () => firstFitting(connectDedicated),
    close: () => pool.close(),
  };
}

/** The caller's own pool: used, never closed. LISTEN gets a connection of its own with the same settings. */
export function callersConnections(pool: pg.Pool): Connections {
  const config = visible(pool.options);
  return {
    source: { kind: "config", config },
    acquire: () => acquireFrom(pool),
    release: (client, isBroken) => (client as pg.PoolClient).release(isBroken),
    dedicated: () => connectDedicated(config),
    async close() {},
  };
}

/** With the secrets too, which the driver hides from copies: connections outside the pool need them. */
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
      let hasFailed = false;
      const onError = () => {
        hasFailed = true;
      };
      client.on("error", onError);
      client.release = (isBroken) => {
        client.off("error", onError);
        release(isBroken || hasFailed);
      };
      resolve(client);
    });
  });
}

export function connectDedicated(config: pg.ClientConfig): Promise<pg.Client> {
  // Without a listener, an error between two queries would end the process.
  return connect({ ...config, query_timeout: SHORT_REPLY_MS }, (client) => client.on("error", () => {}));
}

async function connect(config: pg.ClientConfig, watch: (client: pg.Client) => void): Promise<pg.Client> {
  const client = new pg.Client({ connectionTimeoutMillis: CONNECT_TIMEOUT_MS, ...config });
  watch(client);
  await client.connect();
  return client;
}

async function isPrimary(client: pg.ClientBase): Promise<boolean> {
  const question = { text: "select pg_is_in_recovery() as follows", query_timeout: SHORT_REPLY_MS };
  const { rows } = await client.query<{ follows: boolean }>(question);
  return rows[0]?.follows === false;
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

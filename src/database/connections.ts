/** Where connections come from: a pool of our own over one or several addresses, or the caller's pool. */
import pg from "pg";
import { Problems } from "../config/problems.ts";
import { endClient } from "./end-client.ts";
import { DatabaseUnavailableError } from "./errors.ts";
import { listenToPool } from "./listen-to-pool.ts";
import { Pool } from "./pool.ts";
import { checkRequireAuth, connectByScram, requiresScram } from "./require-auth.ts";
import {
  afterSurprise,
  type DedicatedConnection,
  lookAtSession,
  type Session,
  settleOwnSession,
  settleSharedSession,
} from "./session.ts";
import type { Change } from "./session-settings.ts";
import { type Targets, withoutPassword } from "./targets.ts";

export interface Connections {
  /** That many are open at the most. */
  readonly most: number;
  /** To be given back. */
  acquire(): pg.ClientBase | Promise<pg.ClientBase>;
  /** One that is broken, as far as its user or anybody knows, is closed. */
  release(client: pg.ClientBase, isBroken: boolean): void;
  /** How our statements are run on one that was acquired. */
  sessionOf(client: pg.ClientBase): Session;
  /** Something has shown that it is not as it was found: it is looked at once more. */
  lookAgain(client: pg.ClientBase): Promise<void>;
  /** Outside the pool, for LISTEN; the caller ends it. */
  dedicated(): Promise<DedicatedConnection>;
  /** How another thread can connect to the same database. */
  readonly source: ConnectionSource;
  close(): Promise<void>;
}

export type ConnectionSource =
  | { readonly kind: "targets"; readonly targets: Targets }
  | { readonly kind: "config"; readonly config: pg.ClientConfig };

/** For messages: where that leads to, without user and password. */
export function hostsOf(source: ConnectionSource): string {
  if (source.kind === "targets") return source.targets.urls.map(hostIn).join(" or ");
  const { connectionString, host, port } = source.config;
  if (connectionString !== undefined) return hostIn(connectionString);
  return host === undefined ? "this machine" : `${host}${port === undefined ? "" : `:${port}`}`;
}

function hostIn(url: string): string {
  const [, authority = ""] = /:\/\/([^/?#]*)/.exec(url) ?? [];
  // A socket's folder stands there as %2Ftmp.
  return authority.slice(authority.lastIndexOf("@") + 1).replaceAll(/%2f/gi, "/") || "this machine";
}

/** Of the driver's pool, where its owner has said nothing. */
const MOST_IN_A_POOL = 10;
const CONNECT_TIMEOUT_MS = 10_000;
const CLOSE_IDLE_AFTER_MS = 10_000;
/** What is asked on a dedicated connection, and of a new one, is answered at once, or never. */
const SHORT_REPLY_MS = 30_000;
/** A connection on which nothing is heard is asked by the kernel for a sign after this long, ten times. */
const KEEP_ALIVE_AFTER_MS = 10_000;

export function ownConnections(
  targets: Targets,
  options: { max: number; client?: pg.ClientConfig | undefined; changes?: readonly Change[] },
): Connections {
  const configOf = (url: string): pg.ClientConfig => ({
    connectionString: url,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
    ...(url.includes("application_name=") ? {} : { application_name: "everbeat" }),
    ...options.client,
  });
  let current = 0;

  /** The first target that answers and has the wanted role, beginning with the one that had it last. */
  async function firstFitting(
    connectTo: (config: pg.ClientConfig) => Promise<pg.Client>,
  ): Promise<DedicatedConnection> {
    const { urls } = targets;
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
        const facts = await lookAtSession(client, SHORT_REPLY_MS);
        if (targets.role === "any" || facts.isPrimary) {
          const session = await settleOwnSession(client, facts, options.changes);
          current = index;
          return { client, session };
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

  const sessions = new WeakMap<pg.ClientBase, Session>();
  const pool = new Pool({
    max: options.max,
    async connect(watch) {
      const { client, session } = await firstFitting((config) => connect(config, watch));
      sessions.set(client, session);
      return client;
    },
    waitMs: CONNECT_TIMEOUT_MS,
    idleMs: CLOSE_IDLE_AFTER_MS,
  });
  return {
    most: options.max,
    source: { kind: "targets", targets },
    acquire: () => pool.acquire(),
    release: (client, isBroken) => pool.release(client as pg.Client, isBroken),
    sessionOf: (client) => sessions.get(client) as Session,
    async lookAgain(client) {
      const session = await settleOwnSession(client, await lookAtSession(client, SHORT_REPLY_MS), options.changes);
      sessions.set(client, afterSurprise(session));
    },
    dedicated: () => firstFitting(connectAlone),
    close: () => pool.close(),
  };
}

/** The caller's own pool: used, never closed. LISTEN gets a connection of its own with the same settings. */
export function callersConnections(pool: pg.Pool): Connections {
  const config = visible(pool.options);
  const problems = new Problems();
  checkRequireAuth(config.connectionString, problems);
  problems.throwIfAny("The address of the pool");
  const sessions = new WeakMap<pg.ClientBase, Session>();
  const stopListening = listenToPool(pool);
  const look = async (client: pg.ClientBase) => settleSharedSession(await lookAtSession(client, SHORT_REPLY_MS));
  return {
    most: pool.options.max ?? MOST_IN_A_POOL,
    source: { kind: "config", config },
    async acquire() {
      const client = await acquireFrom(pool);
      if (sessions.has(client)) return client;
      try {
        sessions.set(client, await look(client));
        return client;
      } catch (error) {
        client.release(true);
        throw error;
      }
    },
    release: (client, isBroken) => (client as pg.PoolClient).release(isBroken),
    sessionOf: (client) => sessions.get(client) as Session,
    async lookAgain(client) {
      sessions.set(client, afterSurprise(await look(client)));
    },
    dedicated: () => connectDedicated(config),
    async close() {
      stopListening();
    },
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

/** One outside any pool. `changes`: what is to be set on it besides. */
export async function connectDedicated(
  config: pg.ClientConfig,
  changes: readonly Change[] = [],
): Promise<DedicatedConnection> {
  const client = await connectAlone(config);
  try {
    const facts = await lookAtSession(client, SHORT_REPLY_MS);
    return { client, session: await settleOwnSession(client, facts, changes) };
  } catch (error) {
    void endClient(client);
    throw error;
  }
}

function connectAlone(config: pg.ClientConfig): Promise<pg.Client> {
  // Without a listener, an error between two queries would end the process.
  return connect({ ...config, query_timeout: SHORT_REPLY_MS }, (client) => client.on("error", () => {}));
}

async function connect(config: pg.ClientConfig, watch: (client: pg.Client) => void): Promise<pg.Client> {
  const client = new pg.Client({ connectionTimeoutMillis: CONNECT_TIMEOUT_MS, ...config });
  watch(client);
  await (requiresScram(config) ? connectByScram(client) : client.connect());
  return client;
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

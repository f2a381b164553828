// One try to connect to the server of a data folder, and what came of it.
import { Client, DatabaseError } from "pg";
import { identifyServer } from "./coordination-sql.ts";
import { parsePostmasterFile, readPassword, readPostmasterFile, SERVER_ROLE } from "./server-files.ts";

export type Attempt =
  | { readonly kind: "connected"; readonly connection: ServerConnection }
  /** A server is there and says that it is starting or stopping, or has no room for us: wait. */
  | { readonly kind: "busy"; readonly obstacle: string }
  /** No sign of our server. Starting one is safe to try: PostgreSQL refuses if there is one after all. */
  | {
      readonly kind: "absent";
      readonly obstacle: string;
      /** Some server turned our password away: ours, or a stranger on a port that a killed server left behind. */
      readonly isTurnedAway?: boolean;
    };

export interface ServerConnection {
  readonly client: Client;
  /** Resolves when the connection is gone. */
  readonly ended: Promise<void>;
  readonly dataFolder: string;
  /** Which server it is, as its postmaster.pid says it. */
  readonly server: string;
  readonly port: number;
  readonly password: string;
  readonly version: string;
}

const CONNECT_TIMEOUT_MS = 3_000;
/** A keeper that stands still in the midst of stopping the server must not hold a joiner for ever. */
const LOCK_TIMEOUT_MS = 5_000;
const CANNOT_CONNECT_NOW = "57P03";
const TOO_MANY_CONNECTIONS = "53300";
const INVALID_AUTHORISATION = "28";

export async function tryToConnect(dataFolder: string, applicationName: string): Promise<Attempt> {
  const port = (await readPostmasterFile(dataFolder))?.port;
  if (port === undefined) return { kind: "absent", obstacle: "the server is not running" };
  const password = await readPassword(dataFolder);
  const client = new Client({
    ...{ host: "127.0.0.1", port, user: SERVER_ROLE, password, database: "postgres", ssl: false },
    ...{
      application_name: applicationName,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      lock_timeout: LOCK_TIMEOUT_MS,
    },
  });
  // Without a listener, a connection that breaks while idle would bring the process down.
  client.on("error", () => {});
  const ended = new Promise<void>((resolve) => client.once("end", resolve));
  try {
    await client.connect();
    const identity = await identifyServer(client);
    // A copied folder brings along the password and the port of the original.
    if (identity.dataFolder === dataFolder) {
      const { server } = parsePostmasterFile(identity.postmasterFile);
      const connection = { client, ended, dataFolder, server, port, password, version: identity.version };
      return { kind: "connected", connection };
    }
    void client.end();
    return { kind: "absent", obstacle: `port ${port} is served from ${identity.dataFolder}` };
  } catch (error) {
    void client.end().catch(() => {});
    const obstacle = `port ${port}: ${(error as Error).message}`;
    const code = error instanceof DatabaseError ? error.code : undefined;
    if (code === CANNOT_CONNECT_NOW || code === TOO_MANY_CONNECTIONS) return { kind: "busy", obstacle };
    return { kind: "absent", obstacle, isTurnedAway: code?.startsWith(INVALID_AUTHORISATION) ?? false };
  }
}

/** Only what comes of it: the connection, if there is one, is closed again. */
export async function probe(dataFolder: string, applicationName: string): Promise<Attempt> {
  const attempt = await tryToConnect(dataFolder, applicationName);
  if (attempt.kind === "connected") await attempt.connection.client.end().catch(() => {});
  return attempt;
}

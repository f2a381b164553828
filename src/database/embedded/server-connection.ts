// One try to connect to the server of a data folder, and what came of it.
import { Client, DatabaseError } from "pg";
import { identifyServer } from "./coordination-sql.ts";
import { readPassword, readPostmasterFile, SERVER_ROLE } from "./server-files.ts";

export type Attempt =
  | { readonly kind: "connected"; readonly connection: ServerConnection }
  /** A server is there and says that it is starting or stopping: wait. */
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
  readonly dataFolder: string;
  readonly port: number;
  readonly password: string;
  readonly version: string;
}

const CONNECT_TIMEOUT_MS = 3_000;
/** A keeper that stands still in the midst of stopping the server must not hold a joiner for ever. */
const LOCK_TIMEOUT_MS = 5_000;
const CANNOT_CONNECT_NOW = "57P03";
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
  try {
    await client.connect();
    const identity = await identifyServer(client);
    // A copied folder brings along the password and the port of the original.
    if (identity.dataFolder === dataFolder)
      return { kind: "connected", connection: { client, dataFolder, port, password, version: identity.version } };
    void client.end();
    return { kind: "absent", obstacle: `port ${port} is served from ${identity.dataFolder}` };
  } catch (error) {
    void client.end().catch(() => {});
    const obstacle = `port ${port}: ${(error as Error).message}`;
    const code = error instanceof DatabaseError ? error.code : undefined;
    if (code === CANNOT_CONNECT_NOW) return { kind: "busy", obstacle };
    return { kind: "absent", obstacle, isTurnedAway: code?.startsWith(INVALID_AUTHORISATION) ?? false };
  }
}

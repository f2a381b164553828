// One try to connect to the server of a data folder, and what came of it.
import { Client, DatabaseError } from "pg";
import { endClient } from "../end-client.ts";
import { connectByScram } from "../require-auth.ts";
import { identifyServer, type ServerIdentity } from "./coordination-sql.ts";
import { type PostmasterFile, parsePostmasterFile, readPassword, readServerFile, SERVER_ROLE } from "./server-files.ts";
import { HAS_SOCKETS, socketFolder } from "./socket-folder.ts";

export type Attempt =
  | { readonly kind: "connected"; readonly connection: ServerConnection }
  /** A server is there and says that it is starting or stopping, or has no room for us: wait. */
  | { readonly kind: "busy"; readonly obstacle: string }
  /** Our server runs and cannot go on as it is: its files were moved or removed under it. To be stopped and started anew. */
  | { readonly kind: "stranded"; readonly obstacle: string; readonly server: PostmasterFile }
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
  readonly server: PostmasterFile;
  /** The folder of its socket, or the address that it listens on. */
  readonly host: string;
  readonly port: number;
  readonly password: string;
  readonly version: string;
}

const CONNECT_TIMEOUT_MS = 3_000;
/** A server that was stopped with a signal answers nothing, and keeps the connection. */
const ANSWER_TIMEOUT_MS = 15_000;
/** A keeper that stands still in the midst of stopping the server must not hold a joiner for ever. */
const LOCK_TIMEOUT_MS = 5_000;
const CANNOT_CONNECT_NOW = "57P03";
const TOO_MANY_CONNECTIONS = "53300";
const INVALID_AUTHORISATION = "28";

export async function tryToConnect(dataFolder: string, applicationName: string): Promise<Attempt> {
  const file = await readServerFile(dataFolder);
  if (file?.port === undefined) return { kind: "absent", obstacle: "the server is not running" };
  // Only a server that is ready has said whether it has a socket. Some file systems have none.
  if (HAS_SOCKETS && !file.hasSocket && !file.isReady) return { kind: "absent", obstacle: "the server is not ready" };
  const { port, hasSocket } = file;
  const host = hasSocket ? await socketFolder(dataFolder) : "127.0.0.1";
  const password = await readPassword(dataFolder);
  const client = new Client({
    ...{ host, port, user: SERVER_ROLE, password, database: "postgres", ssl: false },
    ...{
      application_name: applicationName,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: ANSWER_TIMEOUT_MS,
      lock_timeout: LOCK_TIMEOUT_MS,
    },
  });
  // Without a listener, a connection that breaks while idle would bring the process down.
  client.on("error", () => {});
  const ended = new Promise<void>((resolve) => client.once("end", resolve));
  try {
    await connectByScram(client);
    const identity = await identifyServer(client);
    const problem = problemOf(identity, { dataFolder, ...file });
    if (problem === undefined) {
      const server = parsePostmasterFile(identity.postmasterFile ?? "");
      const connection = { client, ended, dataFolder, server, host, port, password, version: identity.version };
      return { kind: "connected", connection };
    }
    void endClient(client);
    return { ...problem, server: file };
  } catch (error) {
    void endClient(client);
    const obstacle = `port ${port}: ${(error as Error).message}`;
    const code = error instanceof DatabaseError ? error.code : undefined;
    if (code === CANNOT_CONNECT_NOW || code === TOO_MANY_CONNECTIONS) return { kind: "busy", obstacle };
    return { kind: "absent", obstacle, isTurnedAway: code?.startsWith(INVALID_AUTHORISATION) ?? false };
  }
}

function problemOf(
  { dataFolder: startedIn, hasMoved, postmasterFile }: ServerIdentity,
  { dataFolder, hasSocket, port }: PostmasterFile & { dataFolder: string },
): { kind: "absent" | "stranded"; obstacle: string } | undefined {
  // By a port, a copied folder leads to the server of the original; its socket is in the folder of whoever it serves.
  if (!hasSocket && startedIn !== dataFolder)
    return { kind: "absent", obstacle: `port ${port} is served from ${startedIn}` };
  if (postmasterFile === null) return { kind: "stranded", obstacle: "its postmaster.pid was removed" };
  if (hasMoved) return { kind: "stranded", obstacle: `it was started in ${startedIn} and has been moved since` };
  return undefined;
}

/** Only what comes of it: the connection, if there is one, is closed again. */
export async function probe(dataFolder: string, applicationName: string): Promise<Attempt> {
  const attempt = await tryToConnect(dataFolder, applicationName);
  if (attempt.kind === "connected") await endClient(attempt.connection.client);
  return attempt;
}

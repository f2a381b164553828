// The embedded PostgreSQL of a project: started by the first process that joins, shared by all, stopped after the last.
//
//   process ──join──▶ connects? ──yes──▶ presence lock ──▶ joined ──close, exit or SIGKILL──▶ session ends
//                        │ no                                                                     │
//                        ▼                                                                        ▼
//              make the database, start it                                   keeper: nobody left for the linger? stop
//
// PostgreSQL does all the coordination: its interlock on the data folder admits one server, a session's locks say who
// is here, and the end of a session, however the process ended, says who has left. No process id is ever tested.
import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { explainFileError } from "./explain-failure.ts";
import { handsFor } from "./hands.ts";
import { DEFAULT_LINGER_MS } from "./keeper-process.ts";
import { becomePresent } from "./presence.ts";
import type { ServerConnection } from "./server-connection.ts";
import { SERVER_ROLE, serverFiles } from "./server-files.ts";

export { describeEmbeddedServer, type EmbeddedServerDescription } from "./describe-server.ts";
export { stopEmbeddedServer } from "./stop-server.ts";

export interface EmbeddedServer {
  /** By its socket, in a folder that nobody else can enter: postgres://postgres:PASSWORD@%2FFOLDER:PORT/everbeat?require_auth=scram-sha-256 */
  readonly url: string;
  /** For tools that know no sockets: postgres://postgres:PASSWORD@127.0.0.1:PORT/everbeat. undefined where its port was taken when it started. */
  readonly tcpUrl: string | undefined;
  readonly version: string;
  readonly dataFolder: string;
  /** It was running before we came. */
  readonly adopted: boolean;
  /** Leaves. The server stops a moment after the last one has left. */
  close(): Promise<void>;
}

export interface JoinOptions {
  /** Where the database lives, for example `<project>/.everbeat`. */
  readonly folder: string;
  readonly onProgress?: (message: string) => void;
  /** How long the server stays after the last one has left: 2 s unless said otherwise. */
  readonly lingerMs?: number;
}

export async function joinEmbeddedServer(options: JoinOptions): Promise<EmbeddedServer> {
  const folder = resolve(options.folder);
  try {
    await makeFolder(folder);
    await (await handsFor(folder)).remove(serverFiles(folder).stopped);
  } catch (error) {
    throw explainFileError(error, folder);
  }
  const presence = await becomePresent({
    folder,
    lingerMs: options.lingerMs ?? DEFAULT_LINGER_MS,
    onProgress: options.onProgress ?? (() => {}),
  });
  const { version, dataFolder, startedHere } = presence.reached;
  return {
    get url() {
      return `${addressAt(presence.reached, presence.reached.host)}?require_auth=scram-sha-256`;
    },
    get tcpUrl() {
      return presence.reached.server.hasPort ? addressAt(presence.reached, "127.0.0.1") : undefined;
    },
    version,
    dataFolder,
    adopted: !startedHere,
    close: () => presence.close(),
  };
}

function addressAt({ password, port }: ServerConnection, host: string): string {
  return `postgres://${SERVER_ROLE}:${password}@${encodeURIComponent(host)}:${port}/everbeat`;
}

/** Root, in the project of an ordinary user (sudo, a container), has that user make a folder, which then stays that user's. */
async function makeFolder(folder: string): Promise<void> {
  if (existsSync(folder)) return;
  let above = dirname(folder);
  while (!existsSync(above)) above = dirname(above);
  await (await handsFor(above)).makeFolders(folder);
}

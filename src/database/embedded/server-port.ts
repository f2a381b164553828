// Chooses the port to start on. It is also the name of the socket, and open processes know the server by it: so it stays, and where
// somebody has taken the port itself, the server does without. Only without sockets must it be free, and may be another than the last.
import { createHash } from "node:crypto";
import { createServer } from "node:net";
import { lastPort } from "./server-files.ts";

// Below the ports that systems hand out to outgoing connections (32768 and up): one of those could take the port while
// the server restarts, or a client that retries could, on loopback, connect to itself.
const FIRST_PORT = 20_000;
const PORT_COUNT = 12_000;

export interface ChosenPort {
  readonly port: number;
  /** Somebody listens on it. */
  readonly isTaken: boolean;
  /** The socket has had this name before. */
  readonly isKept: boolean;
}

export async function choosePort(dataFolder: string, hasSocket: boolean): Promise<ChosenPort> {
  const last = await lastPort(dataFolder);
  if (hasSocket && last !== undefined) return { port: last, isTaken: !(await isFree(last)), isKept: true };
  for (const port of candidates(dataFolder, last)) {
    if (await isFree(port)) return { port, isTaken: false, isKept: false };
  }
  return { port: FIRST_PORT, isTaken: false, isKept: false }; // PostgreSQL will say what is wrong with it.
}

/** The last port, then a walk from a place of the folder's own, so that projects rarely meet. */
export function* candidates(dataFolder: string, last: number | undefined): Generator<number> {
  if (last !== undefined) yield last;
  const start = createHash("sha256").update(dataFolder).digest().readUInt32BE(0);
  for (let step = 0; step < PORT_COUNT; step++) yield FIRST_PORT + ((start + step) % PORT_COUNT);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => server.close(() => resolve(true)));
  });
}

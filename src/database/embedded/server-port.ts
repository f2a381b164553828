// Chooses the port to start on: the last one if it is free, because joined processes hold a URL with it.
import { createHash } from "node:crypto";
import { createServer } from "node:net";
import { lastPort } from "./server-files.ts";

// Below the ports that systems hand out to outgoing connections (32768 and up): one of those could take the port while
// the server restarts, or a client that retries could, on loopback, connect to itself.
const FIRST_PORT = 20_000;
const PORT_COUNT = 12_000;

export async function choosePort(dataFolder: string): Promise<number> {
  for (const port of candidates(dataFolder, await lastPort(dataFolder))) {
    if (await isFree(port)) return port;
  }
  return FIRST_PORT; // PostgreSQL will say what is wrong with it.
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

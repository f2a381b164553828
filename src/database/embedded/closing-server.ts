// A server that got SIGTERM turns everyone away until the last one has left, which may be never: it is stopped for good.
import { performance } from "node:perf_hooks";
import { KEEPER_NAME } from "./coordination-sql.ts";
import { type Attempt, probe } from "./server-connection.ts";
import { readPostmasterFile, realDataFolder, serverFiles } from "./server-files.ts";
import { shutDown } from "./shut-down.ts";
import { takeTurn } from "./starting-turn.ts";

const CLOSING_PATIENCE_MS = 2_000;

/** Told of every attempt to connect; stops the server once it has been closing for too long. */
export function closingWatch(folder: string): (attempt: Attempt) => Promise<void> {
  let since: number | undefined;
  return async (attempt) => {
    since = isClosing(attempt) ? (since ?? performance.now()) : undefined;
    if (since === undefined || performance.now() - since <= CLOSING_PATIENCE_MS) return;
    await stopClosingServer(folder);
    since = undefined;
  };
}

/** In the turn of those who start servers: of several that lost patience, none stops the one that is started next. */
export async function stopClosingServer(folder: string): Promise<void> {
  await takeTurn(serverFiles(folder).turn, async () => {
    const dataFolder = await realDataFolder(folder);
    const server = dataFolder && (await readPostmasterFile(dataFolder))?.server;
    if (dataFolder && server && (await isServerClosing(dataFolder))) await shutDown(folder, dataFolder, server);
  });
}

export async function isServerClosing(dataFolder: string): Promise<boolean> {
  // By the keeper's name, which does not count as someone who is here.
  return isClosing(await probe(dataFolder, KEEPER_NAME));
}

const isClosing = (attempt: Attempt): boolean => attempt.kind === "busy" && attempt.obstacle.includes("shutting down");

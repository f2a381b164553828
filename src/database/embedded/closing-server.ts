// Servers that nobody can join any more are stopped for good, and started anew by whoever needs them.
//
// One that got SIGTERM turns everyone away until the last one has left, which may be never. One whose files were moved or removed
// under it fails sooner or later, or cannot be found.
import { access } from "node:fs/promises";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { KEEPER_NAME } from "./coordination-sql.ts";
import { type Attempt, probe, type ServerConnection } from "./server-connection.ts";
import { readServerFile, realDataFolder, serverFiles } from "./server-files.ts";
import { shutDown } from "./shut-down.ts";
import { HAS_SOCKETS, SOCKET_PREFIX } from "./socket-folder.ts";
import { takeTurn } from "./starting-turn.ts";

const CLOSING_PATIENCE_MS = 2_000;

/** Told of every attempt to connect; stops the server once it has been closing for too long, or cannot go on as it is. */
export function closingWatch(folder: string): (attempt: Attempt) => Promise<void> {
  let since: number | undefined;
  return async (attempt) => {
    if (attempt.kind === "stranded") return await stopUnusableServer(folder);
    since = isClosing(attempt) ? (since ?? performance.now()) : undefined;
    if (since === undefined || performance.now() - since <= CLOSING_PATIENCE_MS) return;
    await stopUnusableServer(folder);
    since = undefined;
  };
}

/** In the turn of those who start servers: of several that lost patience, none stops the one that is started next. */
async function stopUnusableServer(folder: string): Promise<void> {
  await takeTurn(serverFiles(folder).turn, async () => {
    const dataFolder = await realDataFolder(folder);
    if (dataFolder === undefined) return;
    const attempt = await probe(dataFolder, KEEPER_NAME);
    const server = attempt.kind === "stranded" ? attempt.server : await readServerFile(dataFolder);
    if (server && (attempt.kind === "stranded" || isClosing(attempt))) await shutDown({ folder, dataFolder, server });
  });
}

/** For the keeper, whose own session proves that the server is alive: whether somebody else could join. */
export async function isOutOfReach({ dataFolder, port }: ServerConnection): Promise<boolean> {
  // By the keeper's name, which does not count as someone who is here.
  const attempt = await probe(dataFolder, KEEPER_NAME);
  if (attempt.kind !== "absent") return attempt.kind === "stranded" || isClosing(attempt);
  // A server that is slow to answer is no reason; one that cannot be found is. In a folder that is gone, nobody looks for it.
  return HAS_SOCKETS && (await isThere(dataFolder)) && !(await isThere(join(dataFolder, SOCKET_PREFIX + port)));
}

const isClosing = (attempt: Attempt): boolean => attempt.kind === "busy" && attempt.obstacle.includes("shutting down");

async function isThere(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}

// A new keeper's first look at the server that it was spawned for, which may still be starting, or have stopped again.
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { closingWatch } from "./closing-server.ts";
import { KEEPER_NAME } from "./coordination-sql.ts";
import { touchPlace } from "./machine.ts";
import { type ServerConnection, tryToConnect } from "./server-connection.ts";
import { isStoppedOrGone, realDataFolder } from "./server-files.ts";

const LOOK_INTERVAL_MS = 100;
/** For as long as a server that was just spawned may take to show itself. */
const PATIENCE_MS = 10_000;

/**
 * Never starts it: on a busy machine the last one may have left, and another keeper may have stopped the server, before we
 * get here, and then nobody needs it. undefined when there is none.
 */
export async function attendServer(folder: string): Promise<ServerConnection | undefined> {
  let absentSince: number | undefined;
  // Those who are joined keep it half closed, and do not notice: their sessions go on.
  const stopIfStuck = closingWatch(folder);
  while (!(await isStoppedOrGone(folder))) {
    const dataFolder = await realDataFolder(folder);
    if (dataFolder === undefined) return undefined;
    const attempt = await tryToConnect(dataFolder, KEEPER_NAME);
    if (attempt.kind === "connected") return attempt.connection;
    if (attempt.kind === "busy") await touchPlace(dataFolder);
    await stopIfStuck(attempt);
    absentSince = attempt.kind === "absent" ? (absentSince ?? performance.now()) : undefined;
    if (absentSince !== undefined && performance.now() - absentSince > PATIENCE_MS) return undefined;
    await pause(LOOK_INTERVAL_MS);
  }
  return undefined;
}

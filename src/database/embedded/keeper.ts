// The keeper: a process of its own that starts the server again after a crash, and stops it after the last one left.
//
// There is one per server, by an advisory lock. Nothing depends on it for safety: when it is killed, any joined process
// starts another, and when it stops the server just as someone joins, they start the server again.
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { endClient } from "../end-client.ts";
import { attendServer } from "./attend-server.ts";
import { isOutOfReach } from "./closing-server.ts";
import {
  allowPresence,
  isAnyoneConnected,
  KEEPER_NAME,
  tryToBecomeKeeper,
  tryToForbidPresence,
} from "./coordination-sql.ts";
import { EmbeddedServerStoppedError } from "./embedded-errors.ts";
import { DEFAULT_LINGER_MS, type Keeping } from "./keeper-process.ts";
import { isFromHere, touchPlace } from "./machine.ts";
import { reachServer } from "./reach-server.ts";
import type { ServerConnection } from "./server-connection.ts";
import { serverFiles } from "./server-files.ts";
import { shutDown } from "./shut-down.ts";
import { insistOnTurn } from "./starting-turn.ts";

/** What ended a watch: nobody is left, the server is gone under us, or nobody else can join it. */
type WatchEnd = "unused" | "lost" | "out of reach";

const REACH_LOOK_INTERVAL_MS = 2_000;
const TOUCH_INTERVAL_MS = 500;

async function keep(keeping: Keeping): Promise<void> {
  let connection = await attendServer(keeping.folder);
  while (connection !== undefined && (await isFromHere(connection.dataFolder))) {
    const isKeeper = await tryToBecomeKeeper(connection.client).catch(() => "lost" as const);
    if (isKeeper === false) return;
    followData(connection.dataFolder);
    if (isKeeper === true && (await keepOne(connection, keeping)) === "unused and stopped") return;
    // The folder was renamed: a database that is at its old path now belongs to another project.
    if (dataFolderNow(connection) !== connection.dataFolder) return;
    connection = isKeeper === "lost" ? await attendServer(keeping.folder) : await comeBack(keeping);
  }
}

/** A folder that is renamed takes along those who are in it: from inside, its server can be stopped wherever it is. */
function followData(dataFolder: string): void {
  // On Windows, nobody could rename or delete it then.
  if (process.platform === "win32") return;
  try {
    process.chdir(dataFolder);
  } catch {} // Deleted.
}

function dataFolderNow({ dataFolder }: ServerConnection): string {
  if (process.platform === "win32") return dataFolder;
  try {
    // Node keeps the name of the folder until the next chdir.
    process.chdir(".");
    return process.cwd();
  } catch {
    return dataFolder; // Deleted.
  }
}

async function keepOne(connection: ServerConnection, keeping: Keeping): Promise<"unused and stopped" | "to come back"> {
  // Until the server has stopped: a process in another container must not take it for a database that nobody serves.
  const touching = setInterval(() => void touchPlace(dataFolderNow(connection)), TOUCH_INTERVAL_MS);
  try {
    const end = await watch(connection, keeping);
    if (end === "lost") return "to come back";
    const hasStopped = await tryToStop(connection, keeping);
    return hasStopped && end === "unused" ? "unused and stopped" : "to come back";
  } finally {
    clearInterval(touching);
  }
}

/** Can fail for a while: on Windows, `npm ci` takes pg_ctl away and brings it back. */
async function tryToStop(connection: ServerConnection, { folder, lingerMs }: Keeping): Promise<boolean> {
  const { client, server } = connection;
  try {
    const stop = () => shutDown({ folder, dataFolder: dataFolderNow(connection), server });
    await insistOnTurn(serverFiles(folder).turn, stop);
    return true;
  } catch (error) {
    console.error(`everbeat keeper: ${(error as Error).message}`);
    await endClient(client);
    await pause(lingerMs);
    return false;
  }
}

async function comeBack({ folder }: Keeping): Promise<ServerConnection | undefined> {
  try {
    return await reachServer({
      ...{ folder, applicationName: KEEPER_NAME, purpose: "come-back", onProgress: () => {} },
      ...{ keeping: undefined, settle: async () => {} },
    });
  } catch (error) {
    if (error instanceof EmbeddedServerStoppedError) return undefined;
    throw error;
  }
}

async function watch(connection: ServerConnection, { lingerMs }: Keeping): Promise<WatchEnd> {
  const { client } = connection;
  const lookIntervalMs = Math.min(500, Math.max(50, lingerMs / 4));
  let lastSeenAt = performance.now();
  let reachLookAt = performance.now();
  try {
    for (;;) {
      await pause(lookIntervalMs);
      const now = performance.now();
      if (await isAnyoneConnected(client)) lastSeenAt = now;
      else if (now - lastSeenAt >= lingerMs && (await isUnused(client))) return "unused";
      if (now - reachLookAt < REACH_LOOK_INTERVAL_MS) continue;
      reachLookAt = now;
      // Whoever finds it where it was moved to stops it. Those who came before may go on until then.
      const hasMoved = dataFolderNow(connection) !== connection.dataFolder;
      if (!hasMoved && (await isOutOfReach(connection))) return "out of reach";
    }
  } catch {
    await endClient(client);
    return "lost";
  }
}

/** Asked again under the lock: from here on nobody can join until the server has stopped. */
async function isUnused(client: ServerConnection["client"]): Promise<boolean> {
  if (!(await tryToForbidPresence(client))) return false;
  if (!(await isAnyoneConnected(client))) return true;
  await allowPresence(client);
  return false;
}

const [folder, lingerMs] = process.argv.slice(2);
if (folder === undefined) throw new Error("usage: keeper.js <folder> [linger in ms]");
await keep({ folder, lingerMs: Number(lingerMs ?? DEFAULT_LINGER_MS) });
process.exit(0);

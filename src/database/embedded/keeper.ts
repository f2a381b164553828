// The keeper: a process of its own that starts the server again after a crash, and stops it after the last one left.
//
// There is one per server, by an advisory lock. Nothing depends on it for safety: when it is killed, any joined process
// starts another, and when it stops the server just as someone joins, they start the server again.
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { attendServer } from "./attend-server.ts";
import { isServerClosing, stopClosingServer } from "./closing-server.ts";
import {
  allowPresence,
  isAnyoneConnected,
  KEEPER_NAME,
  tryToBecomeKeeper,
  tryToForbidPresence,
} from "./coordination-sql.ts";
import { EmbeddedServerStoppedError } from "./embedded-errors.ts";
import { DEFAULT_LINGER_MS, type Keeping } from "./keeper-process.ts";
import { isFromHere, touchPlace } from "./place.ts";
import { reachServer } from "./reach-server.ts";
import type { ServerConnection } from "./server-connection.ts";
import { serverFiles } from "./server-files.ts";
import { shutDown } from "./shut-down.ts";
import { insistOnTurn } from "./starting-turn.ts";

/** What ended a watch: nobody is left, the server is gone under us, or it waits for everyone to leave (SIGTERM). */
type WatchEnd = "deserted" | "lost" | "closing";

const CLOSING_LOOK_INTERVAL_MS = 2_000;
const TOUCH_INTERVAL_MS = 500;

async function keep(keeping: Keeping): Promise<void> {
  let connection = await attendServer(keeping.folder);
  while (connection !== undefined && (await isFromHere(connection.dataFolder))) {
    const isKeeper = await tryToBecomeKeeper(connection.client).catch(() => "lost" as const);
    if (isKeeper === false) return;
    if (isKeeper === true && (await keepOne(connection, keeping)) === "deserted and stopped") return;
    connection = isKeeper === "lost" ? await attendServer(keeping.folder) : await comeBack(keeping);
  }
}

async function keepOne(
  connection: ServerConnection,
  keeping: Keeping,
): Promise<"deserted and stopped" | "to come back"> {
  // Until the very end of it: whoever is elsewhere and has the turn must not think that nobody is here.
  const touching = setInterval(() => void touchPlace(connection.dataFolder), TOUCH_INTERVAL_MS);
  try {
    const end = await watch(connection, keeping);
    if (end === "lost") return "to come back";
    const hasStopped = await tryToStop(connection, keeping, end);
    return hasStopped && end === "deserted" ? "deserted and stopped" : "to come back";
  } finally {
    clearInterval(touching);
  }
}

/** Can fail for a while: `npm ci` takes PostgreSQL's programs away and brings them back. */
async function tryToStop(
  { client, dataFolder, server }: ServerConnection,
  { folder, lingerMs }: Keeping,
  end: "deserted" | "closing",
): Promise<boolean> {
  try {
    if (end === "closing") await stopClosingServer(folder);
    else await insistOnTurn(serverFiles(folder).turn, () => shutDown(folder, dataFolder, server));
    return true;
  } catch (error) {
    console.error(`everbeat keeper: ${(error as Error).message}`);
    await client.end().catch(() => {});
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

async function watch({ client, dataFolder }: ServerConnection, { lingerMs }: Keeping): Promise<WatchEnd> {
  const lookIntervalMs = Math.min(500, Math.max(50, lingerMs / 4));
  let lastSeenAt = performance.now();
  let closingLookAt = performance.now();
  try {
    for (;;) {
      await pause(lookIntervalMs);
      const now = performance.now();
      if (await isAnyoneConnected(client)) lastSeenAt = now;
      else if (now - lastSeenAt >= lingerMs && (await isDeserted(client))) return "deserted";
      if (now - closingLookAt < CLOSING_LOOK_INTERVAL_MS) continue;
      closingLookAt = now;
      if (await isServerClosing(dataFolder)) return "closing";
    }
  } catch {
    await client.end().catch(() => {});
    return "lost";
  }
}

/** Asked again under the lock: from here on nobody can join until the server has stopped. */
async function isDeserted(client: ServerConnection["client"]): Promise<boolean> {
  if (!(await tryToForbidPresence(client))) return false;
  if (!(await isAnyoneConnected(client))) return true;
  await allowPresence(client);
  return false;
}

const [folder, lingerMs] = process.argv.slice(2);
if (folder === undefined) throw new Error("usage: keeper.js <folder> [linger in ms]");
await keep({ folder, lingerMs: Number(lingerMs ?? DEFAULT_LINGER_MS) });
process.exit(0);

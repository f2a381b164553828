// Comes to a connection with the server of a folder, whatever it takes: waiting, making the database, starting it.
import { access } from "node:fs/promises";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { EverbeatError } from "../../errors.ts";
import { EmbeddedServerLateError, EmbeddedServerStoppedError } from "./embedded-errors.ts";
import { explainFileError } from "./explain-failure.ts";
import type { Keeping } from "./keeper-process.ts";
import { prepareServer } from "./prepare-server.ts";
import { type ServerConnection, tryToConnect } from "./server-connection.ts";
import { realDataFolder, serverFiles } from "./server-files.ts";
import { logTail } from "./server-log.ts";
import { shutDown } from "./shut-down.ts";
import { startServer } from "./start-server.ts";
import { takeTurn } from "./starting-turn.ts";

const DEADLINE_MS = 60_000;
const BUSY_INTERVAL_MS = 40;
const RETRY_INTERVAL_MS = 150;
const CLOSING_PATIENCE_MS = 2_000;

export interface ReachOptions {
  readonly folder: string;
  readonly applicationName: string;
  /** A join may make the database and undo a stop; whoever only comes back may do neither. */
  readonly purpose: "join" | "come-back";
  readonly onProgress: (message: string) => void;
  /** Whom to spawn along with a server that we start. */
  readonly keeping: Keeping | undefined;
  /** What makes the connection worth having. The server may stop just now, so when this fails, all begins again. */
  readonly settle: (connection: ServerConnection, startedHere: boolean) => Promise<void>;
}

export interface Reached extends ServerConnection {
  readonly startedHere: boolean;
}

export async function reachServer(options: ReachOptions): Promise<Reached> {
  const { folder } = options;
  const beganAt = performance.now();
  let startedHere = false;
  let closingSince: number | undefined;
  let obstacle = "";
  for (;;) {
    const look = await lookOnce(options, startedHere);
    if (look.kind === "connected") return { ...look.connection, startedHere };
    obstacle = look.obstacle || obstacle;
    const waitedMs = performance.now() - beganAt;
    if (waitedMs > DEADLINE_MS) {
      const detail = { lastObstacle: obstacle, logTail: await logTail(folder) };
      throw new EmbeddedServerLateError(serverFiles(folder).log, waitedMs, detail);
    }
    if (look.kind === "busy") {
      const isClosing = look.obstacle.includes("shutting down");
      closingSince = isClosing ? (closingSince ?? performance.now()) : undefined;
      if (closingSince !== undefined && performance.now() - closingSince > CLOSING_PATIENCE_MS) await hurry(folder);
      await pause(BUSY_INTERVAL_MS);
      continue;
    }
    await refuseIfStopped(options);
    const start = await startInTurn(options);
    if (start.kind === "ready") startedHere = true;
    if (start.kind === "refused") {
      obstacle = start.obstacle;
      await pause(RETRY_INTERVAL_MS);
    }
  }
}

async function lookOnce(options: ReachOptions, startedHere: boolean): ReturnType<typeof tryToConnect> {
  const dataFolder = await realDataFolder(options.folder);
  if (dataFolder === undefined) return { kind: "absent", obstacle: "there is no database yet" };
  const attempt = await tryToConnect(dataFolder, options.applicationName);
  if (attempt.kind !== "connected") return attempt;
  try {
    await options.settle(attempt.connection, startedHere);
    return attempt;
  } catch (error) {
    await attempt.connection.client.end().catch(() => {});
    if (error instanceof EverbeatError) throw error;
    return { kind: "busy", obstacle: (error as Error).message };
  }
}

/** A server that got SIGTERM turns everyone away until the last one has left, which may be never: make it now. */
async function hurry(folder: string): Promise<void> {
  const dataFolder = await realDataFolder(folder);
  if (dataFolder !== undefined) await shutDown(folder, dataFolder);
}

async function refuseIfStopped({ folder, purpose }: ReachOptions): Promise<void> {
  if (purpose === "join") return;
  const isStopped = await access(serverFiles(folder).stopped).then(
    () => true,
    () => false,
  );
  // A folder that was deleted under us is not made again: an empty database in its place would look like lost work.
  if (isStopped || (await realDataFolder(folder)) === undefined) throw new EmbeddedServerStoppedError(folder);
}

type InTurn = Awaited<ReturnType<typeof startServer>> | { readonly kind: "left-to-another" };

async function startInTurn({ folder, keeping, onProgress }: ReachOptions): Promise<InTurn> {
  let outcome: InTurn = { kind: "left-to-another" };
  try {
    await takeTurn(serverFiles(folder).turn, async () => {
      const prepared = await prepareServer({ folder, onProgress });
      // Whoever had the turn before us may have started it between our look and our turn.
      const now = await tryToConnect(prepared.dataFolder, "everbeat probe");
      if (now.kind === "connected") await now.connection.client.end();
      if (now.kind !== "absent") return;
      onProgress("starting PostgreSQL");
      outcome = await startServer({ folder, keeping, ...prepared });
    });
  } catch (error) {
    throw explainFileError(error, folder);
  }
  return outcome;
}

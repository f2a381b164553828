// Comes to a connection with the server of a folder, whatever it takes: waiting, making the database, starting it.
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { EverbeatError } from "../../errors.ts";
import { endClient } from "../end-client.ts";
import { closingWatch } from "./closing-server.ts";
import { removeDeserted } from "./deserted-data.ts";
import {
  EmbeddedPasswordRefusedError,
  EmbeddedServerLateError,
  EmbeddedServerStoppedError,
} from "./embedded-errors.ts";
import { explainFileError } from "./explain-failure.ts";
import { handsFor } from "./hands.ts";
import type { Keeping } from "./keeper-process.ts";
import { claimLinkedData } from "./linked-data.ts";
import { prepareServer } from "./prepare-server.ts";
import { probe, type ServerConnection, tryToConnect } from "./server-connection.ts";
import { isStoppedOrGone, PASSWORD_FILE, realDataFolder, serverFiles } from "./server-files.ts";
import { logTail } from "./server-log.ts";
import { startServer } from "./start-server.ts";
import { takeTurn } from "./starting-turn.ts";

const DEADLINE_MS = 60_000;
const BUSY_INTERVAL_MS = 40;
const RETRY_INTERVAL_MS = 150;
const LEAST_START_MS = 10_000;
/** For as long as what is left of a killed server may hold its memory, while a stranger answers on its port. */
const TURNED_AWAY_INTERVAL_MS = 1_000;

export interface ReachOptions {
  readonly folder: string;
  readonly applicationName: string;
  /** A join may make the database and undo a stop; whoever only comes back may do neither. */
  readonly purpose: "join" | "come-back";
  readonly onProgress: (message: string) => void;
  /** Whom to spawn along with a server that we start. */
  readonly keeping: Keeping | undefined;
  /** What makes the connection worth having. The server may stop just now, so when this fails, all begins again. */
  readonly settle: (connection: ServerConnection, hasKeeper: boolean) => Promise<void>;
}

export interface Reached extends ServerConnection {
  readonly startedHere: boolean;
}

export async function reachServer(options: ReachOptions): Promise<Reached> {
  const { folder } = options;
  const beganAt = performance.now();
  let startedHere = false;
  let hasKeeper = false;
  const stopIfStuck = closingWatch(folder);
  let wasTurnedAwayBefore = false;
  /** Of the last start: the next look finds only that the server is not there. */
  let obstacle: string | undefined;
  for (;;) {
    const look = await lookOnce(options, hasKeeper);
    if (look.kind === "connected") return { ...look.connection, startedHere };
    const waitedMs = performance.now() - beganAt;
    if (waitedMs > DEADLINE_MS) {
      const lastObstacle = [obstacle, look.obstacle].filter((text) => text !== undefined).join("; ");
      const detail = { lastObstacle, logTail: await logTail(folder) };
      throw new EmbeddedServerLateError(serverFiles(folder).log, waitedMs, detail);
    }
    await stopIfStuck(look);
    if (look.kind === "busy" || look.kind === "stranded") {
      await pause(BUSY_INTERVAL_MS);
      continue;
    }
    await permitStart(options);
    // A server that refuses us has no use for a keeper, which it would refuse as well.
    const isTurnedAway = look.isTurnedAway ?? false;
    const keeping = isTurnedAway ? undefined : options.keeping;
    const start = await startInTurn({ ...options, keeping }, DEADLINE_MS - waitedMs);
    obstacle = start.obstacle;
    if (start.kind === "ready") {
      startedHere = true;
      hasKeeper = keeping !== undefined;
    }
    if (start.kind === "refused") {
      if (isTurnedAway && wasTurnedAwayBefore) throw await passwordRefused(folder, look.obstacle);
      wasTurnedAwayBefore = isTurnedAway;
      await pause(isTurnedAway ? TURNED_AWAY_INTERVAL_MS : RETRY_INTERVAL_MS);
    }
  }
}

/** Someone turns us away, and our data folder is in use, twice in a row: it is our own server that does so. */
async function passwordRefused(folder: string, obstacle: string): Promise<EverbeatError> {
  const dataFolder = (await realDataFolder(folder)) ?? serverFiles(folder).data;
  return new EmbeddedPasswordRefusedError(dataFolder, join(dataFolder, PASSWORD_FILE), obstacle);
}

async function lookOnce(options: ReachOptions, hasKeeper: boolean): ReturnType<typeof tryToConnect> {
  const dataFolder = await realDataFolder(options.folder);
  if (dataFolder === undefined) return { kind: "absent", obstacle: "there is no database yet" };
  await claimLinkedData(options.folder, dataFolder);
  const attempt = await tryToConnect(dataFolder, options.applicationName);
  if (attempt.kind !== "connected") return attempt;
  try {
    await options.settle(attempt.connection, hasKeeper);
    return attempt;
  } catch (error) {
    await endClient(attempt.connection.client);
    if (error instanceof EverbeatError) throw error;
    return { kind: "busy", obstacle: (error as Error).message };
  }
}

async function permitStart({ folder, purpose }: ReachOptions): Promise<void> {
  if (purpose === "join") return await (await handsFor(folder)).remove(serverFiles(folder).stopped);
  // A folder that was deleted under us is not made again: an empty database in its place would look like lost work.
  if (await isStoppedOrGone(folder)) throw new EmbeddedServerStoppedError(folder);
}

type InTurn =
  | Awaited<ReturnType<typeof startServer>>
  | { readonly kind: "left-to-another"; readonly obstacle?: string };

async function startInTurn(options: ReachOptions, patienceMs: number): Promise<InTurn> {
  const { folder, keeping, onProgress } = options;
  const { turn } = serverFiles(folder);
  const giveUpAt = performance.now() + patienceMs;
  let outcome: InTurn = { kind: "left-to-another" };
  const start = async () => {
    // Whoever had the turn before us may have stopped it for good.
    await permitStart(options);
    await removeDeserted();
    const prepared = await prepareServer({ folder, onProgress });
    // Or may have started it between our look and our turn, or be about to make the database.
    if (prepared === undefined || (await probe(prepared.dataFolder, "everbeat probe")).kind !== "absent") return;
    onProgress("starting PostgreSQL");
    // A database that had to be made has taken its time, and is started all the same.
    const leftMs = Math.max(giveUpAt - performance.now(), LEAST_START_MS);
    outcome = await startServer({ folder, keeping, patienceMs: leftMs, ...prepared });
  };
  try {
    const end = await takeTurn(turn, start, patienceMs);
    if (end === "held-by-another")
      return { kind: "left-to-another", obstacle: `another process that is starting it holds ${turn}` };
  } catch (error) {
    throw explainFileError(error, folder);
  }
  return outcome;
}

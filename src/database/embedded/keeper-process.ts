// Starts the keeper, the process that stops the server after the last one has left.

import { existsSync } from "node:fs";
import { parse } from "node:path";
import { performance } from "node:perf_hooks";
import { builtFile } from "../../package-files.ts";
import { isKept } from "./coordination-sql.ts";
import { isFromHere } from "./machine.ts";
import { EmbeddedKeeperMissingError } from "./program-errors.ts";
import type { ServerConnection } from "./server-connection.ts";
import { openLog } from "./server-log.ts";
import { spawnClosed } from "./spawn-closed.ts";

/** The next command of a person or a script finds the server warm. */
export const DEFAULT_LINGER_MS = 2_000;

export interface Keeping {
  readonly folder: string;
  /** How long the server stays after the last one has left. */
  readonly lingerMs: number;
}

/** When they were spawned, by their folders. */
const onTheirWay = new Map<string, number>();
const ON_ITS_WAY_MS = 10_000;

/** A keeper too many finds the lock taken and leaves, so it is safe for several to do this at once. */
export async function ensureKeeper({ client, dataFolder }: ServerConnection, keeping: Keeping): Promise<void> {
  if (await isKept(client)) return void onTheirWay.delete(keeping.folder);
  // Where the server is, others have to see to that: a keeper from here could not stop it.
  if (!(await isFromHere(dataFolder))) return;
  const log = await openLog(keeping.folder);
  try {
    spawnKeeper(keeping, log.fd);
  } finally {
    await log.close();
  }
}

/** Done in one breath with what it is to look after: there is no moment in which a kill leaves one without the other. */
export function spawnKeeper({ folder, lingerMs }: Keeping, logFd: number): void {
  // One that takes its time, as on a crowded machine, is not helped by another.
  const spawnedAt = onTheirWay.get(folder);
  if (spawnedAt !== undefined && performance.now() - spawnedAt < ON_ITS_WAY_MS) return;
  const script = builtFile("database/embedded/keeper.js");
  if (!existsSync(script)) throw new EmbeddedKeeperMissingError(script);
  const options = {
    cwd: parse(script).root,
    env: keeperEnvironment(),
    // It outlives us, however we end, and no Ctrl-C in our terminal reaches it.
    detached: true,
    stdio: ["ignore", logFd, logFd],
  } as const;
  const child = spawnClosed(process.execPath, [script, folder, String(lingerMs)], options, undefined);
  const now = performance.now();
  onTheirWay.set(folder, now);
  // The next look finds no keeper and tries again.
  for (const end of ["error", "exit"]) {
    child.once(end, () => onTheirWay.get(folder) === now && onTheirWay.delete(folder));
  }
  child.unref();
}

/** Loaders, inspectors and coverage are meant for the caller, not for a process that outlives it. */
function keeperEnvironment(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS: _options, NODE_V8_COVERAGE: _coverage, NODE_CHANNEL_FD: _channel, ...kept } = process.env;
  return kept;
}

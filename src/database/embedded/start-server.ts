// Starts PostgreSQL on a data folder and waits until it is ready or gives up.
//
// PostgreSQL's own interlock decides who may: the loser of a race is refused and simply connects to the winner.
import { spawn } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { explainRefusedStart, passingObstacle } from "./explain-failure.ts";
import { type Keeping, spawnKeeper } from "./keeper-process.ts";
import { spawnAs } from "./run-program.ts";
import type { ServerAccount } from "./server-account.ts";
import type { ServerBinaries } from "./server-binaries.ts";
import { readPostmasterFile, serverFiles } from "./server-files.ts";
import { logSize, logTail, openLog } from "./server-log.ts";
import { choosePort } from "./server-port.ts";

const LOOK_INTERVAL_MS = 20;
const STANDS_STILL_AFTER_MS = 1_500;

export type StartOutcome =
  | { readonly kind: "ready" }
  /** Someone else has the folder, or had it a moment ago: try to connect, then try this again. */
  | { readonly kind: "refused"; readonly obstacle: string };

export async function startServer(options: {
  folder: string;
  dataFolder: string;
  binaries: ServerBinaries;
  account: ServerAccount | undefined;
  /** undefined when the keeper itself starts the server. */
  keeping: Keeping | undefined;
}): Promise<StartOutcome> {
  const { folder, dataFolder, binaries, account } = options;
  const leftBehind = await postmasterLeftBehind(dataFolder);
  const port = await choosePort(dataFolder);
  const log = await openLog(folder);
  const logStart = await logSize(folder);
  const before = (await readPostmasterFile(dataFolder))?.text;
  const surroundings = spawnAs(account);
  if (options.keeping !== undefined) spawnKeeper(options.keeping, log.fd);
  const child = spawn(binaries.postgres, ["-D", dataFolder, "-p", String(port)], {
    ...surroundings,
    env: { ...surroundings.env, ...(leftBehind && { PG_GRANDPARENT_PID: leftBehind }) },
    // A session of its own: Ctrl-C in the terminal of whoever started it must not reach it.
    detached: true,
    stdio: ["ignore", log.fd, log.fd],
  });
  let ended: string | undefined;
  child.once("error", (error) => (ended = error.message));
  child.once("exit", (code, signal) => (ended ??= `postgres ended with ${signal ?? code}`));
  child.unref();
  await log.close();

  while (ended === undefined) {
    await pause(LOOK_INTERVAL_MS);
    const now = await readPostmasterFile(dataFolder);
    if (now?.isReady && now.text !== before) return { kind: "ready" };
  }
  const output = `${await logTail(folder, logStart)}\n${ended}`;
  const obstacle = passingObstacle(output);
  if (obstacle !== undefined) return { kind: "refused", obstacle };
  throw explainRefusedStart(output, { dataFolder, logFile: serverFiles(folder).log });
}

/**
 * The process id in a postmaster.pid that a killed server left behind, to be disregarded by PostgreSQL.
 *
 * PostgreSQL refuses to start while that id is in use by any process of the same user, and after a reboot, or in a
 * restarted container, it soon is, by a stranger. It disregards the id of its grandparent (pg_ctl uses this), and then
 * goes by what cannot be a coincidence: whether anyone is attached to the shared memory of this data folder.
 */
async function postmasterLeftBehind(dataFolder: string): Promise<string | undefined> {
  const left = await readPostmasterFile(dataFolder);
  if (left === undefined) return undefined;
  if (left.namesSharedMemory) return left.processId;
  // A server that is just starting looks like this for a moment, one that was killed in that moment for ever.
  await pause(STANDS_STILL_AFTER_MS);
  if ((await readPostmasterFile(dataFolder))?.text !== left.text) return undefined;
  // Cut short by a full disk or a power failure: PostgreSQL would ask for someone to remove it by hand.
  if (left.processId === "") await rm(join(dataFolder, "postmaster.pid"), { force: true });
  return left.processId || undefined;
}

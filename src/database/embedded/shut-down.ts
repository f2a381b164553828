// Ends a server: in good order where it can be done, and by force where it cannot.
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { isSocketAlive } from "./dead-sockets.ts";
import { EmbeddedServerElsewhereError, EmbeddedServerUnstoppableError } from "./embedded-errors.ts";
import { isFromHere } from "./machine.ts";
import { findPlatformPackage } from "./platform-package.ts";
import { type ProgramResult, runProgram } from "./run-program.ts";
import { serverAccountFor } from "./server-account.ts";
import { prepareBinaries } from "./server-binaries.ts";
import { probe } from "./server-connection.ts";
import { type PostmasterFile, readServerFile } from "./server-files.ts";
import { HAS_SOCKETS } from "./socket-folder.ts";
import type { ServerAccount } from "./users.ts";

const STOP_TIMEOUT_MS = 20_000;
const LOOK_INTERVAL_MS = 20;
/** PostgreSQL's own: sessions are ended in good order, or as in a crash. */
const SIGNALS = { fast: "INT", immediate: "QUIT" } as const;

interface ShutDown {
  readonly folder: string;
  readonly dataFolder: string;
  readonly server: PostmasterFile;
}

/** For a server that was just seen alive, in the turn of those who start servers: the number of its process means nothing later. */
export async function shutDown({ folder, dataFolder, server }: ShutDown): Promise<void> {
  // There, its number is that of another process.
  if (!(await isFromHere(dataFolder))) throw new EmbeddedServerElsewhereError(dataFolder);
  const account = await serverAccountFor(folder, dataFolder);
  const isGone = async () => (await readServerFile(dataFolder))?.server !== server.server;
  let output = "";
  for (const mode of ["fast", "immediate"] as const) {
    if (await isGone()) return;
    const told = await tellToStop({ folder, dataFolder, server, account, mode });
    const patienceMs = told.exitCode === 0 ? STOP_TIMEOUT_MS : 0;
    for (const toldAt = performance.now(); performance.now() - toldAt < patienceMs; ) {
      if (await isGone()) return;
      await pause(LOOK_INTERVAL_MS);
    }
    ({ output } = told);
  }
  // It may have been killed, and have left its postmaster.pid behind.
  if (!(await isServerThere(dataFolder))) return;
  throw new EmbeddedServerUnstoppableError(dataFolder, server.processId, output);
}

/** Also one that does not answer, because somebody has stopped it with a signal. */
export async function isServerThere(dataFolder: string): Promise<boolean> {
  return (await probe(dataFolder, "everbeat stop")).kind !== "absent" || (await isSocketAlive(dataFolder));
}

/**
 * As pg_ctl does it, by a signal of the server's own user. Not by pg_ctl itself: it may have been moved with the project, or `npm ci`
 * takes it away just now.
 */
async function tellToStop(
  options: ShutDown & { account: ServerAccount | undefined; mode: keyof typeof SIGNALS },
): Promise<ProgramResult> {
  const { folder, dataFolder, server, account, mode } = options;
  if (HAS_SOCKETS) {
    // Zero and negative numbers would mean a whole group of processes.
    if (!/^[1-9]\d*$/.test(server.processId)) return { exitCode: 1, output: "the server's process is not known" };
    return await runProgram("/bin/sh", ["-c", 'kill -s "$1" "$2"', "sh", SIGNALS[mode], server.processId], account);
  }
  const found = findPlatformPackage(folder, account?.uid);
  const { pgCtl } = await prepareBinaries({ found, account, folder, onProgress: () => {} });
  return await runProgram(pgCtl, ["stop", "-W", "-D", dataFolder, "-m", mode], account);
}

// Ends a server: in good order where it can be done, and by force where it cannot.
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { EmbeddedServerElsewhereError, EmbeddedServerRefusedError } from "./embedded-errors.ts";
import { isFromHere } from "./place.ts";
import { findPlatformPackage } from "./platform-package.ts";
import { runProgram } from "./run-program.ts";
import { serverAccountFor } from "./server-account.ts";
import { prepareBinaries } from "./server-binaries.ts";
import { probe } from "./server-connection.ts";
import { readPostmasterFile, serverFiles } from "./server-files.ts";

const STOP_TIMEOUT_MS = 20_000;
const LOOK_INTERVAL_MS = 20;

/**
 * For a server that was just seen alive, in the turn of those who start servers: pg_ctl signals whoever has the number in
 * postmaster.pid. It would also wait for the next server to go, should that come soon enough, so we wait ourselves.
 */
export async function shutDown(folder: string, dataFolder: string, server: string): Promise<void> {
  // There, its number is that of another process.
  if (!(await isFromHere(dataFolder))) throw new EmbeddedServerElsewhereError(dataFolder);
  const account = await serverAccountFor(folder, dataFolder);
  const found = findPlatformPackage(folder);
  const { pgCtl } = await prepareBinaries({ found, account, folder, onProgress: () => {} });
  const isGone = async () => (await readPostmasterFile(dataFolder))?.server !== server;
  let output = "";
  for (const mode of ["fast", "immediate"]) {
    if (await isGone()) return;
    const told = await runProgram(pgCtl, ["stop", "-W", "-D", dataFolder, "-m", mode], account);
    const patienceMs = told.exitCode === 0 ? STOP_TIMEOUT_MS : 0;
    for (const toldAt = performance.now(); performance.now() - toldAt < patienceMs; ) {
      if (await isGone()) return;
      await pause(LOOK_INTERVAL_MS);
    }
    ({ output } = told);
  }
  // It may have been killed, and have left its postmaster.pid behind.
  if ((await probe(dataFolder, "everbeat stop")).kind === "absent") return;
  throw new EmbeddedServerRefusedError(serverFiles(folder).log, output);
}

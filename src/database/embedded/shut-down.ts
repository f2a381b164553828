// Ends a server: in good order where it can be done, and by force where it cannot.
import { EmbeddedServerRefusedError } from "./embedded-errors.ts";
import { findPlatformPackage } from "./platform-package.ts";
import { runProgram } from "./run-program.ts";
import { serverAccountFor } from "./server-account.ts";
import { prepareBinaries } from "./server-binaries.ts";
import { tryToConnect } from "./server-connection.ts";
import { serverFiles } from "./server-files.ts";

const STOP_TIMEOUT_S = 20;

/** Only for a server that was just seen alive: pg_ctl signals whoever has the number in postmaster.pid. */
export async function shutDown(folder: string, dataFolder: string): Promise<void> {
  const account = await serverAccountFor(folder, dataFolder);
  const found = findPlatformPackage(folder);
  const { pgCtl } = await prepareBinaries({ found, account, folder, onProgress: () => {} });
  const stop = (mode: string) =>
    runProgram(pgCtl, ["stop", "-D", dataFolder, "-m", mode, "-t", String(STOP_TIMEOUT_S)], account);
  const politely = await stop("fast");
  if (politely.exitCode === 0) return;
  // Someone else may have stopped it meanwhile.
  if ((await tryToConnect(dataFolder, "everbeat stop")).kind === "absent") return;
  const firmly = await stop("immediate");
  if (firmly.exitCode !== 0) throw new EmbeddedServerRefusedError(serverFiles(folder).log, firmly.output);
}

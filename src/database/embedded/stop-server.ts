// Stops the server of a folder, whoever uses it.
import { writeFile } from "node:fs/promises";
import { tryToConnect } from "./server-connection.ts";
import { realDataFolder, serverFiles } from "./server-files.ts";
import { shutDown } from "./shut-down.ts";

/** A hard stop for tests and operators: processes that are still joined lose it and do not bring it back. */
export async function stopEmbeddedServer(folder: string): Promise<void> {
  const dataFolder = await realDataFolder(folder);
  if (dataFolder === undefined) return;
  await writeFile(serverFiles(folder).stopped, "");
  const attempt = await tryToConnect(dataFolder, "everbeat stop");
  if (attempt.kind === "absent") return;
  if (attempt.kind === "connected") await attempt.connection.client.end();
  await shutDown(folder, dataFolder);
}

// Stops the server of a folder, whoever uses it.
import { handsFor } from "./hands.ts";
import { readServerFile, realDataFolder, serverFiles } from "./server-files.ts";
import { isServerThere, shutDown } from "./shut-down.ts";
import { insistOnTurn } from "./starting-turn.ts";

/**
 * A hard stop for tests and operators: processes that are still joined lose it and do not bring it back. One that is just
 * being started is stopped when it has.
 */
export async function stopEmbeddedServer(folder: string): Promise<void> {
  const { turn, stopped } = serverFiles(folder);
  await insistOnTurn(turn, async () => {
    const dataFolder = await realDataFolder(folder);
    if (dataFolder === undefined) return;
    await (await handsFor(folder)).write(stopped, "");
    const server = await readServerFile(dataFolder);
    if (server !== undefined && (await isServerThere(dataFolder))) await shutDown({ folder, dataFolder, server });
  });
}

/** A PostgreSQL for one run of the demo: in a temporary folder, and gone with all its data at the end. */
import { chmod, mkdtemp, rm, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { joinEmbeddedServer, stopEmbeddedServer } from "../../database/embedded/embedded-server.ts";

export interface OwnServer {
  readonly url: string;
  readonly version: string;
  readonly folder: string;
  remove(): Promise<void>;
}

export async function startOwnServer(onProgress: (message: string) => void): Promise<OwnServer> {
  const folder = await mkdtemp(join(tmpdir(), "everbeat-demo-"));
  // As root, the server runs as another user, who must be able to pass; the data in it stays closed.
  await chmod(folder, 0o755);
  try {
    const server = await joinEmbeddedServer({ folder, onProgress, lingerMs: 500 });
    return {
      url: server.url,
      version: server.version,
      folder,
      async remove() {
        await server.close();
        await stopEmbeddedServer(folder);
        await removeData(server.dataFolder, folder);
      },
    };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** The data may lie elsewhere, where the server's user can reach it; it was made for us all the same. */
async function removeData(dataFolder: string, folder: string): Promise<void> {
  const options = { recursive: true, force: true, maxRetries: 20, retryDelay: 100 };
  await rm(dataFolder, options);
  if (dirname(dataFolder) !== folder) await rmdir(dirname(dataFolder)).catch(() => {});
  await rm(folder, options);
}

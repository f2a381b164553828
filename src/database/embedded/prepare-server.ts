// Everything that must be there before the server can start: the user it runs as, its programs, its database.
import { join } from "node:path";
import { EverbeatError } from "../../errors.ts";
import { createDataFolder } from "./create-data-folder.ts";
import { EmbeddedDataDamagedError, EmbeddedDataVersionError } from "./embedded-errors.ts";
import { readFound } from "./found-file.ts";
import { findPlatformPackage } from "./platform-package.ts";
import { serverAccountFor } from "./server-account.ts";
import { prepareBinaries, type ServerBinaries } from "./server-binaries.ts";
import { realDataFolder } from "./server-files.ts";
import type { ServerAccount } from "./users.ts";

export interface PreparedServer {
  readonly dataFolder: string;
  readonly binaries: ServerBinaries;
  readonly account: ServerAccount | undefined;
}

/** undefined when someone else took over the making of the database, because we stood still in the middle of it. */
export async function prepareServer(options: {
  folder: string;
  onProgress: (message: string) => void;
}): Promise<PreparedServer | undefined> {
  const { folder, onProgress } = options;
  const existing = await realDataFolder(folder);
  const account = await serverAccountFor(folder, existing);
  const found = findPlatformPackage(folder, account?.uid);
  const binaries = await prepareBinaries({ found, account, folder, onProgress });
  if (existing === undefined) await createDataFolder({ folder, binaries, account, onProgress });
  const dataFolder = existing ?? (await realDataFolder(folder));
  if (dataFolder === undefined) return undefined;
  await checkVersion(dataFolder, binaries);
  return { dataFolder, binaries, account };
}

async function checkVersion(dataFolder: string, binaries: ServerBinaries): Promise<void> {
  const dataMajor = await readDataMajor(dataFolder);
  if (dataMajor === undefined) throw new EmbeddedDataDamagedError(dataFolder, "it has no file PG_VERSION");
  if (dataMajor !== binaries.major) throw new EmbeddedDataVersionError(dataFolder, dataMajor, binaries.major);
}

export async function readDataMajor(dataFolder: string): Promise<string | undefined> {
  const text = await readFound(join(dataFolder, "PG_VERSION")).catch((error) => {
    if (error instanceof EverbeatError) throw error;
    return undefined;
  });
  return text?.trim();
}

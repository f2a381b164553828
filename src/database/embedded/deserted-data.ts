// Removes databases under /var/lib/everbeat whose projects were deleted: only where that is certain, and only a month later.
//
// A link that is not where it was may have been moved to another disk, or be on one that is not mounted now. So the folder of the project
// must be the very folder that it was, and be without `.everbeat`, or with a newer database. Even then, `.everbeat` alone may have been moved
// away: for a month its database is only set aside, and comes back as soon as a link to it is used.
import { lstat, readdir, realpath, rename, rm, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { performance } from "node:perf_hooks";
import { isAnyoneListening } from "./dead-sockets.ts";
import { bringBack, dayOf, desertedIn, desertedNameOf, isDataName } from "./deserted-name.ts";
import { removeAsOwner } from "./hands.ts";
import { SECOND_NAME } from "./linked-data.ts";
import { identityOf, readRecord } from "./project-record.ts";
import { systemProjectFolders } from "./system-folder.ts";

const KEPT_MS = 30 * 24 * 60 * 60 * 1_000;
const REMOVING = ".removing";
/** For what is removed at one start, by processes of its owners, who could stop them: a project of somebody else waits for them. */
const REMOVAL_MS = 10_000;

/** For root, at every start. What fails is tried again by the next. */
export async function removeDeserted(): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const giveUpAt = performance.now() + REMOVAL_MS;
  for (const project of await systemProjectFolders()) {
    const names = await readdir(project).catch(() => []);
    for (const name of names.filter(isDataName)) await setAside(join(project, name)).catch(() => {});
    await removeOld(project, giveUpAt).catch(() => {});
    for (const name of names.filter((name) => name.endsWith(REMOVING)))
      await remove(join(project, name), giveUpAt).catch(() => {});
  }
}

async function setAside(dataFolder: string): Promise<void> {
  // Its keeper stops a server that is still there.
  if (!(await isDeserted(dataFolder)) || (await isAnyoneListening(dataFolder))) return;
  await rename(dataFolder, desertedNameOf(dataFolder, new Date()));
  // A link to it was used between the look and the rename.
  if (!(await isDeserted(dataFolder))) await bringBack(dataFolder);
}

async function removeOld(project: string, giveUpAt: number): Promise<void> {
  const keptSince = dayOf(new Date(Date.now() - KEPT_MS));
  for (const { path, dataFolder, since } of await desertedIn(project)) {
    if (!(await isDeserted(dataFolder))) await bringBack(dataFolder);
    else if (since < keptSince && !(await isAnyoneListening(path))) {
      await rename(path, dataFolder + REMOVING);
      await remove(dataFolder + REMOVING, giveUpAt);
    }
  }
}

/** Its folder goes last: whoever is killed here leaves the rest to the next. */
async function remove(removing: string, giveUpAt: number): Promise<void> {
  const timeoutMs = giveUpAt - performance.now();
  if (timeoutMs <= 0) return;
  const [project, name] = [dirname(removing), basename(removing, REMOVING)];
  for (const beside of await readdir(project)) {
    if (beside.startsWith(`${name}.`) && beside !== basename(removing)) await rm(join(project, beside));
  }
  await removeAsOwner(removing, { timeoutMs });
  await rmdir(project);
}

/** Certain only. Any doubt, as a folder that is not there, or cannot be looked at, means that it is not. */
async function isDeserted(dataFolder: string): Promise<boolean> {
  try {
    const [{ nlink }, record] = [await lstat(dataFolder + SECOND_NAME), await readRecord(dataFolder)];
    if (nlink > 1 || record === undefined) return false;
    if ((await identityOf(dirname(record.folder))) !== record.project) return false;
    if (await isGone(record.folder)) return true;
    return (await realpath(join(record.folder, "data"))) !== dataFolder;
  } catch {
    return false;
  }
}

async function isGone(path: string): Promise<boolean> {
  return await lstat(path).then(
    () => false,
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return true;
      throw error;
    },
  );
}

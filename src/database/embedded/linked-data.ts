// Whose the databases under /var/lib/everbeat are.
//
// `.everbeat/data` is a link to its database, and beside the database is a second name of that very link. A folder that is renamed takes
// its link along. A copy has a link of its own, which is not that one. Other file systems than that of /var/lib/everbeat cannot have the
// second name: for their projects, the record beside the database says where the link is.
import { link, lstat, readlink, rm, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { EmbeddedDataOfOriginalError, EmbeddedFolderOfAnotherUserError } from "./embedded-errors.ts";
import { type ProjectRecord, readRecord, recordOf, writeRecord } from "./project-record.ts";
import { serverFiles } from "./server-files.ts";
import { isSystemData } from "./system-folder.ts";

export const SECOND_NAME = ".linked";

type Found = Awaited<ReturnType<typeof lstat>>;

/** For root, of a database that is there, before it is used. Fails where the link is a copy of another project's, or a stranger's. */
export async function claimLinkedData(folder: string, dataFolder: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { data } = serverFiles(folder);
  const ours = await lstat(data);
  if (!isSystemData(dataFolder)) {
    const isForeign = ours.isSymbolicLink() && ours.uid !== 0 && ours.uid !== (await stat(dataFolder)).uid;
    if (isForeign) throw new EmbeddedFolderOfAnotherUserError(data);
    return;
  }
  const record = await readRecord(dataFolder);
  const known = await lstat(dataFolder + SECOND_NAME).catch(() => undefined);
  if (known === undefined || !isSame(known, ours)) {
    if (record !== undefined && ours.uid !== 0 && ours.uid !== record.owner)
      throw new EmbeddedFolderOfAnotherUserError(data);
    if (known !== undefined && known.nlink > 1) throw new EmbeddedDataOfOriginalError(data, dataFolder);
    if (await isAnothers(record, dataFolder, ours)) throw new EmbeddedDataOfOriginalError(data, dataFolder);
    // The link that it had is gone: ours came from a backup, or was moved here from another disk.
    await giveSecondName(data, dataFolder, ours);
  }
  const now = await recordOf(folder, ours.uid);
  if (JSON.stringify(now) !== JSON.stringify(record)) await writeRecord(dataFolder, now);
}

const isSame = (one: Found, other: Found): boolean => one.ino === other.ino && one.dev === other.dev;

/** Where it was used last is another link that leads to it. */
async function isAnothers(record: ProjectRecord | undefined, dataFolder: string, ours: Found): Promise<boolean> {
  if (record === undefined) return false;
  const path = join(record.folder, "data");
  const theirs = await lstat(path).catch(() => undefined);
  return theirs !== undefined && !isSame(theirs, ours) && (await targetOf(path)) === dataFolder;
}

async function targetOf(path: string): Promise<string | undefined> {
  return await readlink(path).then(
    (text) => resolve(dirname(path), text),
    () => undefined,
  );
}

async function giveSecondName(data: string, dataFolder: string, ours: Found): Promise<void> {
  const secondName = dataFolder + SECOND_NAME;
  await rm(secondName, { force: true });
  await link(data, secondName).catch(() => {});
  const made = await lstat(secondName).catch(() => undefined);
  // Another file was put in the place of the link meanwhile.
  if (made !== undefined && !isSame(made, ours)) await rm(secondName, { force: true });
}

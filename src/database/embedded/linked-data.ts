// Whose the databases under /var/lib/everbeat are, and which of them are nobody's any more.
//
// `.everbeat/data` is a link to its database, and beside the database is a second name of that very link. A folder that is renamed takes
// its link along. A copy has a link of its own, which is not that one. Where only the second name is left, the project's is deleted.
// Other file systems than that of /var/lib/everbeat cannot have the second name: databases of theirs are never removed.
import { link, lstat, readdir, rm, rmdir, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isAnyoneListening } from "./dead-sockets.ts";
import { EmbeddedDataOfOriginalError } from "./embedded-errors.ts";
import { removeAsOwner } from "./hands.ts";
import { serverFiles } from "./server-files.ts";
import { isSystemData, systemProjectFolders } from "./system-folder.ts";

const SECOND_NAME = ".link";

/** For root, of a database that is there. Fails where the link is a copy of another project's. */
export async function claimLinkedData(folder: string, dataFolder: string): Promise<void> {
  if (process.getuid?.() !== 0 || !isSystemData(dataFolder)) return;
  const { data } = serverFiles(folder);
  const secondName = dataFolder + SECOND_NAME;
  const [ours, known] = [await lstat(data), await lstat(secondName).catch(() => undefined)];
  if (known?.ino === ours.ino && known.dev === ours.dev) return;
  if (known !== undefined && known.nlink > 1) throw new EmbeddedDataOfOriginalError(data, dataFolder);
  // Its first name is gone: ours came from a backup, or was moved here from another disk.
  await rm(secondName, { force: true });
  await link(data, secondName).catch(() => {});
}

/** For root: the databases whose projects were deleted. */
export async function removeDeserted(): Promise<void> {
  if (process.getuid?.() !== 0) return;
  for (const project of await systemProjectFolders()) {
    const names = (await readdir(project)).filter((name) => name.endsWith(SECOND_NAME));
    for (const name of names) await removeIfDeserted(join(project, name)).catch(() => {}); // The next start tries again.
  }
}

async function removeIfDeserted(secondName: string): Promise<void> {
  const { nlink } = await lstat(secondName);
  const dataFolder = secondName.slice(0, -SECOND_NAME.length);
  // Its keeper stops a server that is still there.
  if (nlink > 1 || (await isAnyoneListening(dataFolder))) return;
  await removeAsOwner(dataFolder);
  await unlink(secondName);
  await rmdir(dirname(dataFolder));
}

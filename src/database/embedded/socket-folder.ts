// Where the server's socket is: in its data folder, which nobody else can enter, under a short name where its own is too long.
//
// A port can be taken by anybody once its server has died. A socket in a closed folder cannot, and it goes along when that folder is
// renamed: whoever answers there serves this very data.
import { createHash, randomUUID } from "node:crypto";
import { lstat, mkdir, readdir, readlink, rename, stat, symlink, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import {
  EmbeddedDataOpenError,
  EmbeddedFolderOfAnotherUserError,
  EmbeddedSocketFolderInsecureError,
} from "./embedded-errors.ts";
import { isInRootsHands } from "./other-owner.ts";

/** Node has none on Windows. */
export const HAS_SOCKETS = process.platform !== "win32";
/** As the server is told: where it finds itself, and not by a path. A folder that is renamed takes its socket along. */
export const SOCKET_FOLDER = ".";
export const SOCKET_PREFIX = ".s.PGSQL.";
/** A socket's address holds 107 bytes on Linux and 103 on other systems. */
const LONGEST_FOLDER_BYTES = 103 - `/${SOCKET_PREFIX}65535`.length;

/** By a name that fits into a socket's address. */
export async function socketFolder(dataFolder: string): Promise<string> {
  const { uid, mode } = await lstat(dataFolder);
  const we = process.getuid?.();
  if (we !== 0 && uid !== we) throw new EmbeddedFolderOfAnotherUserError(dataFolder);
  if ((mode & 0o022) !== 0) throw new EmbeddedDataOpenError(dataFolder);
  return fits(dataFolder) ? dataFolder : await shortNameOf(dataFolder);
}

function fits(folder: string): boolean {
  return Buffer.byteLength(folder) <= LONGEST_FOLDER_BYTES;
}

/** A link in a folder of ours alone: another user could put another link in its place, and be taken for the server. */
async function shortNameOf(dataFolder: string): Promise<string> {
  const folders = [tmpdir(), "/tmp"].map((place) => join(place, `everbeat-${process.getuid?.()}`));
  const name = createHash("sha256").update(dataFolder).digest("hex").slice(0, 16);
  let insecure = "";
  for (const folder of folders) {
    if (!fits(join(folder, name))) continue;
    if ((await isSafePlace(dirname(folder))) && (await isOursAlone(folder)))
      return await linkTo(dataFolder, folder, name);
    insecure = folder;
  }
  throw new EmbeddedSocketFolderInsecureError(insecure || tmpdir(), dataFolder);
}

/** Nobody else can put another folder in the place of one that is ours in there. */
async function isSafePlace(place: string): Promise<boolean> {
  const found = await stat(place).catch(() => undefined);
  const we = process.getuid?.();
  if (found === undefined || (found.uid !== 0 && found.uid !== we)) return false;
  const isSticky = (found.mode & 0o1000) !== 0;
  if ((found.mode & 0o022) !== 0 && !isSticky) return false;
  return we !== 0 || (await isInRootsHands(place));
}

async function isOursAlone(folder: string): Promise<boolean> {
  // One that cannot be made is seen below.
  await mkdir(folder, { mode: 0o700 }).catch(() => {});
  const found = await lstat(folder).catch(() => undefined);
  return found?.isDirectory() === true && found.uid === process.getuid?.() && (found.mode & 0o077) === 0;
}

async function linkTo(dataFolder: string, folder: string, name: string): Promise<string> {
  const link = join(folder, name);
  if ((await readlink(link).catch(() => undefined)) === dataFolder) return link;
  const aside = join(folder, randomUUID());
  await symlink(dataFolder, aside);
  await rename(aside, link);
  await removeLost(folder);
  return link;
}

/** Of projects that are gone. */
async function removeLost(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const isLost = await stat(join(folder, name)).then(
      () => false,
      (error: NodeJS.ErrnoException) => error.code === "ENOENT",
    );
    if (isLost) await unlink(join(folder, name)).catch(() => {});
  }
}

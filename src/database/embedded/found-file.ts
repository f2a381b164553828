// Opens a small file that is already there, and nothing else that may be in its place: no link, no pipe, no device, no file of a third user.
//
// Another user can put any of these into a folder in which root works. Root would follow the link, and wait at the pipe for ever.
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dirname } from "node:path";
import { EmbeddedFileForeignError } from "./embedded-errors.ts";
import { ownerWhoCanReach } from "./other-owner.ts";

const UNFOLLOWED = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Root appends only to what is the folder's owner's already. */
export const openToAppend = (path: string): Promise<FileHandle> =>
  openFound(path, constants.O_WRONLY | constants.O_APPEND);

export const openToRead = (path: string): Promise<FileHandle> => openFound(path, constants.O_RDONLY);

/** Those that are read are far smaller. Another user could have made one that fills root's memory. */
const MOST_BYTES = 1024 * 1024;

/** Fails with ENOENT where there is none. */
export async function readFound(path: string): Promise<string> {
  const handle = await openToRead(path);
  try {
    const { size } = await handle.stat();
    if (size > MOST_BYTES) throw new EmbeddedFileForeignError(path);
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(size), 0, size, 0);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await handle.close();
  }
}

async function openFound(path: string, flags: number): Promise<FileHandle> {
  const owner = await ownerWhoCanReach(dirname(path));
  const handle = await open(path, flags | UNFOLLOWED).catch((error: NodeJS.ErrnoException) => {
    // A link, and a pipe that nobody reads.
    if (error.code === "ELOOP" || error.code === "ENXIO") throw new EmbeddedFileForeignError(path, { cause: error });
    throw error;
  });
  const found = await handle.stat();
  const owners = owner !== undefined && (flags === constants.O_RDONLY ? [owner, 0] : [owner]);
  if (found.isFile() && (owners === false || owners.includes(found.uid))) return handle;
  await handle.close();
  throw new EmbeddedFileForeignError(path);
}

// Opens a small file that is already there, and nothing else that may be in its place: no link, no pipe, no device, no file of a third user.
//
// Another user can put any of these into a folder in which root works. Root would follow the link, and wait at the pipe for ever.
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dirname } from "node:path";
import { EmbeddedFileForeignError } from "./embedded-errors.ts";
import { presentOwner } from "./other-owner.ts";

const UNFOLLOWED = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Root appends only to what is the folder's owner's already. */
export const openToAppend = (path: string): Promise<FileHandle> =>
  openFound(path, constants.O_WRONLY | constants.O_APPEND);

export const openToRead = (path: string): Promise<FileHandle> => openFound(path, constants.O_RDONLY);

/** Fails with ENOENT where there is none. */
export async function readFound(path: string): Promise<string> {
  const handle = await openToRead(path);
  try {
    return await handle.readFile("utf8");
  } finally {
    await handle.close();
  }
}

async function openFound(path: string, flags: number): Promise<FileHandle> {
  const owner = await presentOwner(dirname(path));
  const handle = await open(path, flags | UNFOLLOWED).catch((error: NodeJS.ErrnoException) => {
    // A link, and a pipe that nobody reads.
    if (error.code === "ELOOP" || error.code === "ENXIO") throw new EmbeddedFileForeignError(path, { cause: error });
    throw error;
  });
  const found = await handle.stat();
  const owners = owner && (flags === constants.O_RDONLY ? [owner.uid, 0] : [owner.uid]);
  if (found.isFile() && (owners === undefined || owners.includes(found.uid))) return handle;
  await handle.close();
  throw new EmbeddedFileForeignError(path);
}

// The server's log in the project's folder: bounded, private, and quoted in errors.
import { constants } from "node:fs";
import { type FileHandle, lstat, open } from "node:fs/promises";
import { EmbeddedFolderOfAnotherUserError } from "./embedded-errors.ts";
import { handsFor } from "./hands.ts";
import { serverFiles } from "./server-files.ts";

const MAX_LOG_BYTES = 10 * 1024 * 1024;
const TAIL_BYTES = 4_000;

const NO_LINKS = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

export async function openLog(folder: string): Promise<FileHandle> {
  const { log } = serverFiles(folder);
  const hands = await handsFor(folder);
  const size = await logSize(folder);
  if (size > MAX_LOG_BYTES) await hands.rename(log, `${log}.1`);
  // Statements in it may show data, so it is for its owner only.
  if (size === 0 || size > MAX_LOG_BYTES) await hands.append(log, "");
  const handle = await open(log, constants.O_WRONLY | constants.O_APPEND | NO_LINKS);
  // Root, in the folder of another user, writes only into what is that user's already.
  const { uid } = await handle.stat();
  if (hands.account === undefined || uid === hands.account.uid) return handle;
  await handle.close();
  throw new EmbeddedFolderOfAnotherUserError(log);
}

export async function logSize(folder: string): Promise<number> {
  return await lstat(serverFiles(folder).log).then(
    ({ size }) => size,
    () => 0,
  );
}

/** The end of the log, from `since` at the earliest. */
export async function logTail(folder: string, since = 0): Promise<string> {
  const size = await logSize(folder);
  const from = Math.max(size < since ? 0 : since, size - TAIL_BYTES);
  if (size === 0) return "";
  const handle = await open(serverFiles(folder).log, constants.O_RDONLY | NO_LINKS);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(size - from), 0, size - from, from);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await handle.close();
  }
}

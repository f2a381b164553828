// The server's log in the project's folder: bounded, private, and quoted in errors.
import { type FileHandle, lstat } from "node:fs/promises";
import { openToAppend, openToRead } from "./found-file.ts";
import { handsFor } from "./hands.ts";
import { serverFiles } from "./server-files.ts";

const MAX_LOG_BYTES = 10 * 1024 * 1024;
const TAIL_BYTES = 4_000;

export async function openLog(folder: string): Promise<FileHandle> {
  const { log } = serverFiles(folder);
  const hands = await handsFor(folder);
  if ((await logSize(folder)) > MAX_LOG_BYTES) await hands.rename(log, `${log}.1`);
  // Statements in it may show data, so it is for its owner only.
  if (!(await exists(log)))
    await hands.create(log).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  return await openToAppend(log);
}

async function exists(path: string): Promise<boolean> {
  return await lstat(path).then(
    () => true,
    () => false,
  );
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
  const handle = await openToRead(serverFiles(folder).log);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(size - from), 0, size - from, from);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await handle.close();
  }
}

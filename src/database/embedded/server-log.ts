// The server's log in the project's folder: bounded, private, and quoted in errors.
import { constants } from "node:fs";
import { type FileHandle, open, rename, stat } from "node:fs/promises";
import { serverFiles } from "./server-files.ts";

const MAX_LOG_BYTES = 10 * 1024 * 1024;
const TAIL_BYTES = 4_000;

export async function openLog(folder: string): Promise<FileHandle> {
  const { log } = serverFiles(folder);
  if ((await logSize(folder)) > MAX_LOG_BYTES) await rename(log, `${log}.1`);
  // Statements in it may show data, so it is for its owner only; and root must not be led elsewhere by a link.
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0);
  const handle = await open(log, flags, 0o600);
  if (process.getuid?.() === 0) {
    // Under sudo, in the folder of an ordinary user, who will want to start the server too some day.
    const owner = await stat(folder);
    await handle.chown(owner.uid, owner.gid);
  }
  return handle;
}

export async function logSize(folder: string): Promise<number> {
  return await stat(serverFiles(folder).log).then(
    ({ size }) => size,
    () => 0,
  );
}

/** The end of the log, from `since` at the earliest. */
export async function logTail(folder: string, since = 0): Promise<string> {
  const size = await logSize(folder);
  const from = Math.max(size < since ? 0 : since, size - TAIL_BYTES);
  if (size === 0) return "";
  const handle = await open(serverFiles(folder).log, "r");
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(size - from), 0, size - from, from);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await handle.close();
  }
}

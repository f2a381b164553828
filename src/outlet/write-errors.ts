/** Why something could not be written, in words. */

export const NOT_READ = "its reader does not read";

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: "no space left on the device",
  EDQUOT: "the quota of the disk is used up",
  EFBIG: "the file may not become larger",
  EPIPE: "nobody reads it any more",
  ECONNRESET: "nobody reads it any more",
  EIO: "the terminal is closed, or the disk fails",
  EBADF: "it is closed",
};

/** By the code of the error. */
export function reasonOf(code: string | undefined): string {
  const words = REASONS[code ?? ""] ?? "it cannot be written";
  return code === undefined ? words : `${words} (${code})`;
}

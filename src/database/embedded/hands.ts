// Who does the work on files in a folder: we; or, for root in the folder of another user, that user.
//
// That user can put a link in the place of anything there, at any moment. Root would follow it, and change, own or remove what it leads
// to. A process of that user can do no more than that user can.
import { existsSync } from "node:fs";
import { chmod, lstat, mkdir, open, rename, rm, rmdir, stat, symlink } from "node:fs/promises";
import { dirname } from "node:path";
import { runProgram } from "./run-program.ts";
import type { ServerAccount } from "./server-account.ts";

export interface Hands {
  /** undefined: our own. */
  readonly account: ServerAccount | undefined;
  /** With those above it that are missing. */
  makeFolders(path: string): Promise<void>;
  /** One that must not be there yet, for its owner only. */
  makeClosedFolder(path: string): Promise<void>;
  /** In the place of what was there, for its owner only. */
  write(path: string, text: string): Promise<void>;
  append(path: string, text: string): Promise<void>;
  /** Fails where there is a folder with something in it already. */
  rename(from: string, to: string): Promise<void>;
  symlink(target: string, path: string): Promise<void>;
  makeExecutable(path: string): Promise<void>;
  /** With all that is in it; no error where there is nothing. */
  remove(path: string): Promise<void>;
}

export async function handsFor(folder: string): Promise<Hands> {
  if (process.getuid?.() !== 0) return OUR_HANDS;
  const { uid, gid } = await stat(folder);
  if (uid === 0) return OUR_HANDS;
  const account = { uid, gid };
  // An owner who cannot get there, because a folder above is closed, can change nothing there either.
  const reaches = await runProgram("/bin/sh", ["-c", '[ -w "$1" ] && [ -x "$1" ]', "sh", folder], account);
  return reaches.exitCode === 0 ? handsOf(account) : OUR_HANDS;
}

export const OUR_HANDS: Hands = {
  account: undefined,
  makeFolders,
  makeClosedFolder: (path) => mkdir(path, { mode: 0o700 }),
  async write(path, text) {
    await rm(path, { force: true });
    await writeWith("wx", path, text);
  },
  append: (path, text) => writeWith("a", path, text),
  rename,
  symlink: (target, path) => symlink(target, path),
  makeExecutable: (path) => chmod(path, 0o755),
  remove: (path) => rm(path, { recursive: true, force: true }),
};

/** One by one: where a folder exists and nothing can be made in it (/proc), the recursive mkdir of Node never ends. */
async function makeFolders(path: string): Promise<void> {
  const above = dirname(path);
  if (!existsSync(above)) await makeFolders(above);
  try {
    await mkdir(path, { mode: 0o755 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

async function writeWith(flags: string, path: string, text: string): Promise<void> {
  const handle = await open(path, flags, 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export function handsOf(account: ServerAccount): Hands {
  const run = async (script: string, args: readonly string[], input = "") => {
    const result = await runProgram("/bin/sh", ["-c", `umask 077; ${script}`, "sh", ...args], account, input);
    if (result.exitCode !== 0) throw errorIn(result.output);
  };
  return {
    account,
    makeFolders: (path) => run('umask 022; mkdir -p -- "$1"', [path]),
    makeClosedFolder: (path) => run('mkdir -- "$1"', [path]),
    // By its input: anybody can read a command line.
    write: (path, text) => run('rm -f -- "$1" && set -C && cat > "$1" && sync -- "$1"', [path], text),
    append: (path, text) => run('cat >> "$1" && sync -- "$1"', [path], text),
    rename: (from, to) => run(`mv ${process.platform === "linux" ? "-T" : "-n"} -- "$1" "$2"`, [from, to]),
    symlink: (target, path) => run('ln -s -- "$1" "$2"', [target, path]),
    makeExecutable: (path) => run('chmod 755 -- "$1"', [path]),
    remove: (path) => run('rm -rf -- "$1"', [path]),
  };
}

/** For root, in a folder of root's own: a folder whose owner could put links into it while root removes what is there. */
export async function removeAsOwner(folder: string): Promise<void> {
  const found = await lstat(folder).catch(() => undefined);
  if (process.getuid?.() !== 0 || found === undefined || found.uid === 0) return;
  // The folder itself is not the owner's to remove.
  await handsOf(found)
    .remove(folder)
    .catch(() => {});
  await rmdir(folder);
}

const ERROR_CODES: ReadonlyArray<readonly [RegExp, string]> = [
  [/File exists/, "EEXIST"],
  [/Directory not empty/, "ENOTEMPTY"],
  [/No space left on device/, "ENOSPC"],
  [/Disk quota exceeded/, "EDQUOT"],
  [/Read-only file system/, "EROFS"],
  [/No such file or directory|nonexistent directory/, "ENOENT"],
  [/Not a directory/, "ENOTDIR"],
  [/Permission denied|Operation not permitted/, "EACCES"],
];

/** As Node would have said it. */
function errorIn(output: string): Error {
  const code = ERROR_CODES.find(([pattern]) => pattern.test(output))?.[1];
  return Object.assign(new Error(output.trim()), code === undefined ? {} : { code });
}

// Who does the work on files in a folder: we; or, for root in the folder of another user, that user.
//
// That user can put a link in the place of anything there, at any moment. Root would follow it, and change, own or remove what it leads
// to. A process of that user can do no more than that user can.
import { constants, existsSync } from "node:fs";
import { lstat, mkdir, open, rename, rm, rmdir, symlink } from "node:fs/promises";
import { dirname } from "node:path";
import { ownerWhoCanReach } from "./other-owner.ts";
import { runProgram } from "./run-program.ts";
import { accountOf, type ServerAccount } from "./users.ts";

/** Those by whom files are changed: this process itself, or processes of the user whom a folder belongs to. */
export interface Hands {
  /** undefined: our own. */
  readonly account: ServerAccount | undefined;
  /** With those above it that are missing. */
  makeFolders(path: string): Promise<void>;
  /** One that must not be there yet, for its owner only. */
  makeClosedFolder(path: string): Promise<void>;
  /** An empty file that must not be there yet, for its owner only. */
  create(path: string): Promise<void>;
  /** In the place of what was there, for its owner only. */
  write(path: string, text: string): Promise<void>;
  append(path: string, text: string): Promise<void>;
  /** A file replaces a file. A folder fails where there is a folder with something in it already. */
  rename(from: string, to: string): Promise<void>;
  symlink(target: string, path: string): Promise<void>;
  makeExecutable(path: string): Promise<void>;
  /** With all that is in it; no error where there is nothing. */
  remove(path: string): Promise<void>;
}

export async function handsFor(folder: string): Promise<Hands> {
  const owner = await ownerWhoCanReach(folder);
  // What the owner cannot do there, root does not do either: the owner may be able to, a moment later.
  return owner === undefined ? OUR_HANDS : handsOf(await accountOf(owner));
}

export const OUR_HANDS: Hands = {
  account: undefined,
  makeFolders,
  makeClosedFolder: (path) => mkdir(path, { mode: 0o700 }),
  create: (path) => writeWith("wx", path, ""),
  async write(path, text) {
    await rm(path, { force: true });
    await writeWith("wx", path, text);
  },
  append: (path, text) => writeWith("a", path, text),
  rename,
  symlink: (target, path) => symlink(target, path),
  async makeExecutable(path) {
    // A link that somebody left there would have its target made executable, and readable.
    const handle = await open(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0));
    await handle.chmod(0o755).finally(() => handle.close());
  },
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

interface HandsOptions {
  /** Says how that user's programs rename. */
  readonly platform?: NodeJS.Platform;
  /** For each step: that user may have stopped the process that does it. */
  readonly timeoutMs?: number;
}

export function handsOf(account: ServerAccount, { platform = process.platform, timeoutMs }: HandsOptions = {}): Hands {
  const perform = async (program: string, args: readonly string[], path: string, input?: string) => {
    const { exitCode, output } = await runProgram(program, args, account, {
      ...{ input, timeoutMs, purpose: `The work on ${path}` },
    });
    if (exitCode !== 0) throw errorIn(output, account);
  };
  const run = async (script: string, [path, ...others]: readonly [string, ...string[]], input?: string) =>
    await perform("/bin/sh", ["-c", `umask 077; ${script}`, "sh", path, ...others], path, input);
  return {
    account,
    makeFolders: (path) => run('umask 022; mkdir -p -- "$1"', [path]),
    makeClosedFolder: (path) => run('mkdir -- "$1"', [path]),
    // A shell would open a pipe that is there, and wait.
    create: (path) => run('if [ -e "$1" ] || [ -L "$1" ]; then echo File exists; exit 1; fi; set -C; : > "$1"', [path]),
    // By its input: anybody can read a command line.
    write: (path, text) => run('rm -f -- "$1" && set -C && cat > "$1" && sync -- "$1"', [path], text),
    append: (path, text) => run('cat >> "$1" && sync -- "$1"', [path], text),
    // Elsewhere than on Linux, `mv` moves into a folder that is there, and has no option against it.
    rename: async (from, to) =>
      platform === "linux"
        ? await run('mv -T -- "$1" "$2"', [from, to])
        : await perform(process.execPath, ["-e", RENAME, from, to], from),
    symlink: (target, path) => run('ln -s -- "$2" "$1"', [path, target]),
    makeExecutable: (path) => run('chmod 755 -- "$1"', [path]),
    remove: (path) => run('rm -rf -- "$1"', [path]),
  };
}

const RENAME = 'require("node:fs").renameSync(process.argv[1], process.argv[2])';

/** For root, in a folder of root's own: a folder whose owner could put links into it while root removes what is there. */
export async function removeAsOwner(folder: string, options?: HandsOptions): Promise<void> {
  const found = await lstat(folder).catch(() => undefined);
  if (process.getuid?.() !== 0 || found === undefined || found.uid === 0) return;
  // The folder itself is not the owner's to remove.
  await handsOf(await accountOf(found.uid), options)
    .remove(folder)
    .catch(() => {});
  await rmdir(folder);
}

const ERROR_CODES: ReadonlyArray<readonly [RegExp, string]> = [
  [/File (already )?exists/i, "EEXIST"],
  [/Directory not empty/i, "ENOTEMPTY"],
  [/No space left on device/i, "ENOSPC"],
  [/Disk quota exceeded/i, "EDQUOT"],
  [/Read-only file system/i, "EROFS"],
  [/No such file or directory|nonexistent directory|directory nonexistent/i, "ENOENT"],
  [/Not a directory/i, "ENOTDIR"],
  [/Permission denied|Operation not permitted/i, "EACCES"],
];

/** As Node would have said it, and who could not do it. */
function errorIn(output: string, { uid }: ServerAccount): Error {
  const code = ERROR_CODES.find(([pattern]) => pattern.test(output))?.[1];
  const message = `${output.trim()} (done in the name of user ${uid})`;
  return Object.assign(new Error(message), { writer: uid }, code === undefined ? {} : { code });
}

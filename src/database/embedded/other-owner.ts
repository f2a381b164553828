// For root: whether the way to a folder leads through the hands of another user.
//
// Whoever owns a folder on the way can put another folder in the place of what is in it, or a link to anywhere, at any moment. The folders
// above belong to root and stay as they are. So the first one of another user is certain; what is behind it is opened, and its owner and
// its place are those of the very folder that was opened.
import { constants } from "node:fs";
import { lstat, open, readlink, realpath, stat } from "node:fs/promises";
import { join, parse, resolve, sep } from "node:path";
import { EmbeddedFolderOfAnotherUserError } from "./embedded-errors.ts";
import { runProgram } from "./run-program.ts";
import type { ServerAccount } from "./server-account.ts";

/** undefined: root's own, or we are not root. Fails where another user's link leads to a folder that is not that user's. */
export async function otherOwner(folder: string): Promise<ServerAccount | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const first = await firstOfAnother(resolve(folder));
  return first && (await ownerBehind(folder, first));
}

/** The same, but undefined also where a folder of root's keeps that user out, who then can change nothing there. */
export async function presentOwner(folder: string): Promise<ServerAccount | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const first = await firstOfAnother(resolve(folder));
  if (first === undefined || (first.isClosed && !(await canReach(first)))) return undefined;
  return await ownerBehind(folder, first);
}

/** For root: no folder or link of another user is on the way to it. */
export async function isInRootsHands(path: string): Promise<boolean> {
  return (await firstOfAnother(resolve(path))) === undefined;
}

/** The first on the way to a folder that is not root's: a folder, or a link. */
interface First extends ServerAccount {
  readonly path: string;
  /** Where the folder really is, if nothing from here on is a link. */
  readonly expected: string;
  /** Above is a folder that lets in nobody but root and root's group. */
  readonly isClosed: boolean;
}

async function firstOfAnother(path: string, links = 0): Promise<First | undefined> {
  let { root: above } = parse(path);
  let isClosed = false;
  const names = path.slice(above.length).split(sep);
  for (const [index, name] of names.entries()) {
    const here = join(above, name);
    const found = await lstat(here);
    const { uid, gid, mode } = found;
    if (uid !== 0) {
      return { ...accountOf(uid, gid), path: here, expected: join(above, ...names.slice(index)), isClosed };
    }
    if (found.isSymbolicLink()) {
      if (links === MOST_LINKS) throw Object.assign(new Error(`too many links: ${path}`), { code: "ELOOP" });
      return await firstOfAnother(resolve(above, await readlink(here), ...names.slice(index + 1)), links + 1);
    }
    if ((mode & 0o001) === 0 && ((mode & 0o010) === 0 || gid === 0)) isClosed = true;
    above = here;
  }
  return undefined;
}

const MOST_LINKS = 40;

async function ownerBehind(folder: string, first: First): Promise<ServerAccount | undefined> {
  const reached = await openedFolder(folder).catch(() => undefined);
  // Where root cannot look (a file system of that user's own), that user does the work.
  if (reached === undefined) return accountOf(first.uid, first.gid);
  if (reached.uid !== first.uid && reached.path !== first.expected) throw new EmbeddedFolderOfAnotherUserError(folder);
  return reached.uid === 0 ? undefined : accountOf(reached.uid, reached.gid);
}

async function openedFolder(folder: string): Promise<ServerAccount & { path: string }> {
  if (process.platform !== "linux") {
    const { uid, gid } = await stat(folder);
    return { uid, gid, path: await realpath(folder) };
  }
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const { uid, gid } = await handle.stat();
    return { uid, gid, path: await readlink(`/proc/self/fd/${handle.fd}`) };
  } finally {
    await handle.close();
  }
}

/** Asked of the system, since access lists have a say too. */
async function canReach({ uid, gid, path }: First): Promise<boolean> {
  const { exitCode } = await runProgram("/bin/sh", ["-c", '[ -e "$1" ] || [ -L "$1" ]', "sh", path], { uid, gid });
  return exitCode === 0;
}

const NO_GROUP = 65534;

/** A folder can have root's group without its owner being in it. */
function accountOf(uid: number, gid: number): ServerAccount {
  return { uid, gid: gid === 0 ? NO_GROUP : gid };
}

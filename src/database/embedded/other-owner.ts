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
import { accountOf } from "./users.ts";

/** Their number. undefined: root's own, or we are not root. Fails where another user's link leads to a folder that is not that user's. */
export async function otherOwner(folder: string): Promise<number | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const first = await firstOfAnother(resolve(folder));
  return first && (await ownerBehind(folder, first));
}

/** The same, but undefined also where a folder of root's keeps that user out, who then can change nothing there. */
export async function ownerWhoCanReach(folder: string): Promise<number | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const first = await firstOfAnother(resolve(folder));
  if (first === undefined || first.isKeptOut === "certainly") return undefined;
  if (first.isKeptOut === "perhaps" && !(await canReach(first))) return undefined;
  return await ownerBehind(folder, first);
}

/** For root: no folder or link of another user is on the way to it. */
export async function isInRootsHands(path: string): Promise<boolean> {
  return (await firstOfAnother(resolve(path))) === undefined;
}

/** The first on the way to a folder that is not root's: a folder, or a link. */
interface First {
  readonly uid: number;
  readonly path: string;
  /** Where the folder really is, if nothing from here on is a link. */
  readonly expected: string;
  /** Whether a folder above lets in nobody but root: "perhaps" where an access list has a say. */
  readonly isKeptOut: "no" | "perhaps" | "certainly";
}

async function firstOfAnother(path: string, links = 0): Promise<First | undefined> {
  let { root: above } = parse(path);
  let isKeptOut: First["isKeptOut"] = "no";
  const names = path.slice(above.length).split(sep);
  for (const [index, name] of names.entries()) {
    const here = join(above, name);
    const found = await lstat(here);
    const { uid, gid, mode } = found;
    if (uid !== 0) return { uid, path: here, expected: join(above, ...names.slice(index)), isKeptOut };
    if (found.isSymbolicLink()) {
      if (links === MOST_LINKS) throw Object.assign(new Error(`too many links: ${path}`), { code: "ELOOP" });
      return await firstOfAnother(resolve(above, await readlink(here), ...names.slice(index + 1)), links + 1);
    }
    // On Linux, an access list lets in nobody where the group may not enter: the group's part of the mode is the list's mask.
    if ((mode & 0o011) === 0 && process.platform === "linux") isKeptOut = "certainly";
    else if (isKeptOut === "no" && (mode & 0o001) === 0 && ((mode & 0o010) === 0 || gid === 0)) isKeptOut = "perhaps";
    above = here;
  }
  return undefined;
}

const MOST_LINKS = 40;

async function ownerBehind(folder: string, first: First): Promise<number> {
  const reached = await openedFolder(folder).catch(() => undefined);
  // Where root cannot look (a file system of that user's own), that user does the work.
  if (reached === undefined) return first.uid;
  if (reached.uid !== first.uid && reached.path !== first.expected) throw new EmbeddedFolderOfAnotherUserError(folder);
  // Whoever owns the folder around one of root's can put another in its place, or a link, between any two steps of root's.
  return reached.uid === 0 ? first.uid : reached.uid;
}

async function openedFolder(folder: string): Promise<{ uid: number; path: string }> {
  if (process.platform !== "linux") {
    const { uid } = await stat(folder);
    return { uid, path: await realpath(folder) };
  }
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const { uid } = await handle.stat();
    return { uid, path: await readlink(`/proc/self/fd/${handle.fd}`) };
  } finally {
    await handle.close();
  }
}

/** Asked of the system, since access lists have a say too, and with all groups of that user. In any doubt, the user can. */
async function canReach({ uid, path }: First): Promise<boolean> {
  const { gid } = await accountOf(uid);
  const args = ["-e", LOOK_AS, String(uid), String(gid), path];
  const { exitCode } = await runProgram(process.execPath, args, undefined);
  return exitCode !== KEPT_OUT;
}

const KEPT_OUT = 13;
/** It takes on only what files are opened by: a process that is wholly that user's could be made to give any answer. */
const LOOK_AS = `
  const [uid, gid, path] = process.argv.slice(1);
  try { process.initgroups(+uid, +gid); } catch { process.setgroups([]); }
  process.setegid(+gid);
  process.seteuid(+uid);
  try { require("node:fs").lstatSync(path); } catch (error) { if (error.code === "EACCES") process.exit(${KEPT_OUT}); }`;

// Copies PostgreSQL's programs to a place where another user can run them, in one visible step.
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { chmod, lchown, mkdir, open, readdir, readlink, rename, rm, symlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { type Hands, removeAsOwner } from "./hands.ts";
import { EmbeddedBinariesUnusableError } from "./program-errors.ts";
import { runProgram } from "./run-program.ts";
import type { ServerAccount } from "./users.ts";

interface Copying {
  readonly from: string;
  readonly to: string;
  /** Who makes the copy, which is then theirs: whoever has the original in their hands. */
  readonly hands: Hands;
  /** For root, where the original is another user's who cannot reach it. */
  readonly owner: number | undefined;
  readonly finish: (copy: string) => Promise<void>;
}

const PATIENCE_MS = 180_000;

/** Copied aside and renamed: whoever sees `to` sees all of it. Several may do this at once; the first one counts. */
export async function copyTreeAtomically({ from, to, hands, owner, finish }: Copying): Promise<void> {
  const aside = `${to}-${randomUUID()}`;
  try {
    if (hands.account === undefined) await copyTree(from, aside, owner);
    else await haveCopied(from, aside, hands.account);
    await finish(aside);
    await rename(aside, to);
  } catch (error) {
    if (hands.account !== undefined) await removeAsOwner(aside).catch(() => {});
    else await rm(aside, { recursive: true, force: true });
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ENOTEMPTY" && code !== "EEXIST") throw error;
  }
}

/** By a process of that user, who could swap what is copied, or what the copy is made into, for a link at any moment. */
async function haveCopied(from: string, to: string, account: ServerAccount): Promise<void> {
  await mkdir(to);
  await chmod(to, 0o755);
  await lchown(to, account.uid, account.gid);
  const script = 'umask 022; cp -RP -- "$1/." "$2" && chmod -R u+rwX,go+rX -- "$2"';
  const { exitCode, output } = await runProgram("/bin/sh", ["-c", script, "sh", from, to], account, {
    ...{ timeoutMs: PATIENCE_MS, purpose: `The copying of ${from}` },
  });
  if (exitCode !== 0) throw new EmbeddedBinariesUnusableError(from, `it cannot be copied: ${output}`);
}

async function copyTree(from: string, to: string, owner: number | undefined): Promise<void> {
  await mkdir(to);
  // Set by hand, here and below: neither the umask nor the modes of a closed original may make the copy unreadable.
  await chmod(to, 0o755);
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const source = join(from, entry.name);
    const target = join(to, entry.name);
    if (entry.isDirectory()) await copyTree(source, target, owner);
    else if (entry.isSymbolicLink()) await copyLink(source, target);
    else if (entry.isFile() && !entry.name.endsWith(".a")) await copyReadable(source, target, owner);
  }
}

/** PostgreSQL's own lead to a file beside them. Others, `..` too, could lead out of the copy. */
async function copyLink(source: string, target: string): Promise<void> {
  const text = await readlink(source);
  if (basename(text) === text && text !== ".." && text !== ".") await symlink(text, target);
}

/** Root copies from the folder of another user only what is that user's: a second name of a file there could be of anybody's secrets. */
async function copyReadable(source: string, target: string, owner: number | undefined): Promise<void> {
  const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
  const handle = await open(source, flags);
  try {
    const { uid, mode, nlink } = await handle.stat();
    const isOpenOfRoot = uid === 0 && nlink === 1 && (mode & 0o004) !== 0;
    if (owner !== undefined && uid !== owner && !isOpenOfRoot)
      throw Object.assign(new Error(`${source} belongs to another user than the folder that it is in`), {
        code: "EACCES",
      });
    await writeFile(target, await handle.readFile(), { flag: "wx" });
    await chmod(target, mode & 0o100 ? 0o755 : 0o644);
  } finally {
    await handle.close();
  }
}

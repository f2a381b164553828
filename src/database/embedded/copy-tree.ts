// Copies PostgreSQL's programs to a place where another user can run them, in one visible step.
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { chmod, mkdir, open, readdir, readlink, rename, rm, symlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";

interface Copying {
  readonly from: string;
  readonly to: string;
  /** For root, where the original is in the hands of another user. */
  readonly owner: number | undefined;
  readonly finish: (copy: string) => Promise<void>;
}

/** Copied aside and renamed: whoever sees `to` sees all of it. Several may do this at once; the first one counts. */
export async function copyTreeAtomically({ from, to, owner, finish }: Copying): Promise<void> {
  const aside = `${to}-${randomUUID()}`;
  try {
    await copyTree(from, aside, owner);
    await finish(aside);
    await rename(aside, to);
  } catch (error) {
    await rm(aside, { recursive: true, force: true });
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== "ENOTEMPTY" && code !== "EEXIST") throw error;
  }
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

/** PostgreSQL's own lead to a file beside them. Others could lead out of the copy. */
async function copyLink(source: string, target: string): Promise<void> {
  const text = await readlink(source);
  if (basename(text) === text) await symlink(text, target);
}

/** Root copies from the folder of another user only what is that user's: a link there could lead to anybody's secrets. */
async function copyReadable(source: string, target: string, owner: number | undefined): Promise<void> {
  const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
  const handle = await open(source, flags);
  try {
    const { uid, mode } = await handle.stat();
    if (owner !== undefined && uid !== owner)
      throw Object.assign(new Error(`${source} belongs to another user than the folder that it is in`), {
        code: "EACCES",
      });
    await writeFile(target, await handle.readFile(), { flag: "wx" });
    await chmod(target, mode & 0o100 ? 0o755 : 0o644);
  } finally {
    await handle.close();
  }
}

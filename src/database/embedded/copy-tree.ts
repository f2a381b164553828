// Copies PostgreSQL's programs to a place where another user can run them, in one visible step.
import { randomUUID } from "node:crypto";
import { chmod, copyFile, lstat, mkdir, readdir, readlink, rename, rm, symlink } from "node:fs/promises";
import { join } from "node:path";

/** Copied aside and renamed: whoever sees `to` sees all of it. Several may do this at once; the first one counts. */
export async function copyTreeAtomically(
  from: string,
  to: string,
  finish: (copy: string) => Promise<void>,
): Promise<void> {
  const aside = `${to}-${randomUUID()}`;
  try {
    await copyTree(from, aside);
    await finish(aside);
    await rename(aside, to);
  } catch (error) {
    await rm(aside, { recursive: true, force: true });
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== "ENOTEMPTY" && code !== "EEXIST") throw error;
  }
}

async function copyTree(from: string, to: string): Promise<void> {
  await mkdir(to);
  // Set by hand, here and below: neither the umask nor the modes of a closed original may make the copy unreadable.
  await chmod(to, 0o755);
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const source = join(from, entry.name);
    const target = join(to, entry.name);
    if (entry.isDirectory()) await copyTree(source, target);
    else if (entry.isSymbolicLink()) await symlink(await readlink(source), target);
    else if (entry.isFile() && !entry.name.endsWith(".a")) await copyReadable(source, target);
  }
}

async function copyReadable(source: string, target: string): Promise<void> {
  await copyFile(source, target);
  const { mode } = await lstat(source);
  await chmod(target, mode & 0o100 ? 0o755 : 0o644);
}

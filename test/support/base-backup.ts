/** A base backup by hand: the embedded binaries have no pg_basebackup. */
import { chown, copyFile, mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import type { ServerAccount } from "../../src/database/embedded/users.ts";

interface Copy {
  readonly from: string;
  /** A folder that is not there yet. */
  readonly to: string;
  /** Who runs the servers, where that is not who runs the tests. */
  readonly account: ServerAccount | undefined;
}

/** The files of a running process, and folders whose contents mean nothing to another server; see "Base Backup" in PostgreSQL's manual. */
const LEFT_OUT = /^(postmaster\.(pid|opts)|pg_(wal|replslot|dynshmem|notify|serial|snapshots|stat_tmp|subtrans)\/.*)$/;

/** Of a server that runs. It goes on meanwhile; the backup is of a moment between the call and its end. */
export async function takeBaseBackup({ url, ...copy }: Copy & { url: string }): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await client.query("select pg_backup_start('by hand', fast => true)");
    await makeFolder(copy.to, copy.account);
    await copyFiles(copy, (path) => !LEFT_OUT.test(path));
    const { rows } = await client.query("select labelfile from pg_backup_stop(wait_for_archive => false)");
    // Now the log has everything that makes the copied files fit together.
    await copyFiles(copy, (path) => path.startsWith("pg_wal/"));
    await appendFor(copy.account, join(copy.to, "backup_label"), rows[0].labelfile);
  } finally {
    await client.end();
  }
}

export async function appendFor(account: ServerAccount | undefined, path: string, text: string): Promise<void> {
  await writeFile(path, text, { flag: "a" });
  await giveTo(account, path);
}

/** Folders come before what is in them. */
async function copyFiles({ from, to, account }: Copy, isWanted: (path: string) => boolean): Promise<void> {
  for (const entry of await readdir(from, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name).slice(from.length + 1);
    if (!isWanted(path)) continue;
    if (entry.isDirectory()) await makeFolder(join(to, path), account);
    else await copyOne(join(from, path), join(to, path), account);
  }
}

async function makeFolder(path: string, account: ServerAccount | undefined): Promise<void> {
  // A server refuses a folder that others can read.
  await mkdir(path, { mode: 0o700 });
  await giveTo(account, path);
}

async function copyOne(from: string, to: string, account: ServerAccount | undefined): Promise<void> {
  try {
    await copyFile(from, to);
  } catch (error) {
    // The server removes files while it runs, and its log says so.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  await giveTo(account, to);
}

async function giveTo(account: ServerAccount | undefined, path: string): Promise<void> {
  if (account) await chown(path, account.uid, account.gid);
}

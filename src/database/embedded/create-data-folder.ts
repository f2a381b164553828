// Makes a new database aside and puts it in place in one step, so that a half-made one is never mistaken for a good one.
import { randomBytes, randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, chown, mkdir, open, readdir, realpath, rename, rm, stat, symlink } from "node:fs/promises";
import { join } from "node:path";
import { explainFileError, explainInitialisation } from "./explain-failure.ts";
import { runProgram } from "./run-program.ts";
import type { ServerAccount } from "./server-account.ts";
import type { ServerBinaries } from "./server-binaries.ts";
import { PASSWORD_FILE, SERVER_ROLE, serverFiles } from "./server-files.ts";
import { systemProjectFolder } from "./system-folder.ts";

const HALF_MADE = "making-";

interface Workshop {
  readonly folder: string;
  readonly data: string;
  readonly password: string;
}

export async function createDataFolder(options: {
  folder: string;
  binaries: ServerBinaries;
  account: ServerAccount | undefined;
  onProgress: (message: string) => void;
}): Promise<void> {
  const { folder, binaries, account } = options;
  await removeHalfMade(folder);
  const here = await openWorkshop(folder, account);
  if (here === "overtaken") return;
  if (here !== "closed") {
    options.onProgress(`making a database in ${serverFiles(folder).data}`);
    return await workIn(here, binaries, account, async (data) => await rename(data, serverFiles(folder).data));
  }
  const parent = await systemProjectFolder(await realpath(folder));
  await removeHalfMade(parent);
  const there = await openWorkshop(parent, account);
  if (there === "overtaken") return;
  if (there === "closed") throw explainInitialisation("Permission denied", parent);
  const target = join(parent, `data-${randomUUID().slice(0, 8)}`);
  options.onProgress(`making a database in ${target}, because the server's user cannot reach ${folder}`);
  await workIn(there, binaries, account, async (data) => {
    await rename(data, target);
    // The link is what makes it the database of this folder; without it the next one to come makes another.
    await symlink(target, serverFiles(folder).data);
  });
}

/**
 * Left by processes that were killed here. Whoever still works in one fails, looks again, and finds ours; what cannot be
 * removed, because someone writes into it just now or it is another user's, is in nobody's way.
 */
async function removeHalfMade(parent: string): Promise<void> {
  const left = (await readdir(parent)).filter((name) => name.startsWith(HALF_MADE));
  await Promise.all(left.map((name) => removeAtOnce(join(parent, name), join(parent, HALF_MADE + randomUUID()))));
}

/** Out of the way first, in one step: whoever works in it finds it whole or gone. */
async function removeAtOnce(folder: string, aside: string): Promise<void> {
  try {
    await rename(folder, aside);
    await rm(aside, { recursive: true, force: true });
  } catch {}
}

/** "closed" when the server's user cannot work under `parent`, "overtaken" when someone else has cleared ours away. */
async function openWorkshop(
  parent: string,
  account: ServerAccount | undefined,
): Promise<Workshop | "closed" | "overtaken"> {
  const folder = join(parent, HALF_MADE + randomUUID());
  const workshop = { folder, data: join(folder, "data"), password: join(folder, "password") };
  await mkdir(folder);
  try {
    await mkdir(workshop.data, { mode: 0o700 });
    if (account === undefined) return workshop;
    await chmod(folder, 0o755);
    if (await isUsableBy(account, workshop.data)) return workshop;
  } catch (error) {
    if (existsSync(folder)) throw error;
  }
  if (!existsSync(folder)) return "overtaken";
  await rm(folder, { recursive: true, force: true });
  return "closed";
}

/** Some file systems take a chown and forget it, and any folder above may be closed: so really write a file. */
async function isUsableBy(account: ServerAccount, data: string): Promise<boolean> {
  try {
    await chown(data, account.uid, account.gid);
  } catch {
    return false;
  }
  if ((await stat(data)).uid !== account.uid) return false;
  const proof = join(data, "proof");
  const { exitCode } = await runProgram("/bin/sh", ["-c", ': > "$1"', "sh", proof], account);
  await rm(proof, { force: true });
  return exitCode === 0;
}

async function workIn(
  workshop: Workshop,
  binaries: ServerBinaries,
  account: ServerAccount | undefined,
  putInPlace: (data: string) => Promise<void>,
): Promise<void> {
  try {
    await writePassword(workshop.password, account);
    await initialise(workshop, binaries, account);
    await writeSettings(join(workshop.data, "postgresql.conf"));
    // Inside the data folder, so that a database and its password can never be from two different beginnings.
    await rename(workshop.password, join(workshop.data, PASSWORD_FILE));
    await putInPlace(workshop.data);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    // Someone else's database is already there, or our half-made one was cleared away: look again.
    const isOvertaken = code === "ENOTEMPTY" || code === "EEXIST" || !existsSync(workshop.folder);
    if (!isOvertaken) throw explainFileError(error, workshop.folder);
  } finally {
    await rm(workshop.folder, { recursive: true, force: true });
  }
}

async function writePassword(file: string, account: ServerAccount | undefined): Promise<void> {
  const handle = await open(file, "wx", 0o600);
  try {
    await handle.writeFile(`${randomBytes(24).toString("hex")}\n`);
    if (account !== undefined) await handle.chown(account.uid, account.gid);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function initialise(
  workshop: Workshop,
  binaries: ServerBinaries,
  account: ServerAccount | undefined,
): Promise<void> {
  const args = [
    ...["-D", workshop.data, "-U", SERVER_ROLE, `--pwfile=${workshop.password}`, "--auth=scram-sha-256"],
    ...["--locale=C", "--encoding=UTF8"],
  ];
  const { exitCode, output } = await runProgram(binaries.initdb, args, account);
  if (exitCode !== 0) throw explainInitialisation(output, workshop.folder);
}

/** What is last in the file counts. Before PostgreSQL 16, initdb takes no settings itself. */
async function writeSettings(file: string): Promise<void> {
  const handle = await open(file, "a");
  try {
    await handle.writeFile("\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 200\n");
    await handle.sync();
  } finally {
    await handle.close();
  }
}

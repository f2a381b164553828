// Makes a new database aside and puts it in place in one step, so that a half-made one is never mistaken for a good one.
import { randomBytes, randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, lchown, lstat, readdir, realpath, rename } from "node:fs/promises";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { isDataName } from "./deserted-name.ts";
import { explainFileError, explainInitialisation } from "./explain-failure.ts";
import { type Hands, handsFor, handsOf, OUR_HANDS, removeAsOwner } from "./hands.ts";
import { EmbeddedProgramStuckError } from "./program-errors.ts";
import { readRecord } from "./project-record.ts";
import { runProgram } from "./run-program.ts";
import type { ServerBinaries } from "./server-binaries.ts";
import { PASSWORD_FILE, SERVER_ROLE, serverFiles } from "./server-files.ts";
import { systemProjectFolder } from "./system-folder.ts";
import type { ServerAccount } from "./users.ts";

const HALF_MADE = "making-";
const INITIALISATION_MS = 180_000;
/** Another user may have left very many, each of which takes a process of theirs. */
const CLEARING_MS = 5_000;
const SETTINGS = "\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 200\n";

interface Workshop {
  readonly folder: string;
  readonly data: string;
  readonly password: string;
  /** Of whoever owns the folder around it. */
  readonly hands: Hands;
}

interface CreateOptions {
  readonly folder: string;
  readonly binaries: ServerBinaries;
  readonly account: ServerAccount | undefined;
  readonly onProgress: (message: string) => void;
}

export async function createDataFolder(options: CreateOptions): Promise<void> {
  const { folder, account } = options;
  const hands = await handsFor(folder);
  const here = await openWorkshop(folder, hands, account);
  if (here === "overtaken") return;
  if (here !== "closed") {
    options.onProgress(`making a database in ${serverFiles(folder).data}`);
    return await workIn(here, options, async (data) => await hands.rename(data, serverFiles(folder).data));
  }
  const parent = await systemProjectFolder(await realpath(folder));
  const unused = await unusedData(parent);
  if (unused !== undefined) return await linkTo(unused, folder, hands);
  const there = await openWorkshop(parent, OUR_HANDS, account);
  if (there === "overtaken") return;
  if (there === "closed") throw explainInitialisation("Permission denied", parent);
  const target = join(parent, `data-${randomUUID().slice(0, 8)}`);
  options.onProgress(`making a database in ${target}, because the server's user cannot reach ${folder}`);
  await workIn(there, options, async (data) => {
    await rename(data, target);
    // The link is what makes it the database of this folder. Whoever is killed before it leaves a database that nobody has used.
    await linkTo(target, folder, hands);
  });
}

/** Made by a process that was killed before the link, or is about to make it: whoever uses a database leaves a record beside it first. */
async function unusedData(parent: string): Promise<string | undefined> {
  for (const name of (await readdir(parent)).filter(isDataName)) {
    if ((await readRecord(join(parent, name))) === undefined) return join(parent, name);
  }
  return undefined;
}

async function linkTo(target: string, folder: string, hands: Hands): Promise<void> {
  await hands.symlink(target, serverFiles(folder).data).catch((error: NodeJS.ErrnoException) => {
    // Someone else's database is already there: look again.
    if (error.code !== "EEXIST") throw error;
  });
}

/** "closed" when the server's user cannot work under `parent`, "overtaken" when someone else has cleared ours away. */
async function openWorkshop(
  parent: string,
  hands: Hands,
  account: ServerAccount | undefined,
): Promise<Workshop | "closed" | "overtaken"> {
  // Only root could give a folder in there to the server's user, and its owner could put something else in its place.
  if (hands.account !== undefined && hands.account.uid !== account?.uid) return "closed";
  await removeHalfMade(parent, hands);
  const folder = join(parent, HALF_MADE + randomUUID());
  const workshop = { folder, data: join(folder, "data"), password: join(folder, "password"), hands };
  await hands.makeFolders(folder);
  try {
    await hands.makeClosedFolder(workshop.data);
    if (account === undefined || hands.account !== undefined) return workshop;
    await chmod(folder, 0o755);
    if (await isUsableBy(account, workshop.data)) return workshop;
  } catch (error) {
    if (existsSync(folder)) throw error;
  }
  if (!existsSync(folder)) return "overtaken";
  await removeWorkshop(folder, hands);
  return "closed";
}

/**
 * Left by processes that were killed here. Whoever still works in one fails, looks again, and finds ours; what cannot be
 * removed, because someone writes into it just now or it is another user's, is in nobody's way.
 */
async function removeHalfMade(parent: string, hands: Hands): Promise<void> {
  const left = (await readdir(parent)).filter((name) => name.startsWith(HALF_MADE));
  const giveUpAt = performance.now() + CLEARING_MS;
  for (const name of left) {
    if (performance.now() > giveUpAt) return;
    const aside = join(parent, HALF_MADE + randomUUID());
    try {
      // Out of the way first, in one step: whoever works in it finds it whole or gone.
      await hands.rename(join(parent, name), aside);
      await removeWorkshop(aside, hands);
    } catch (error) {
      if (error instanceof EmbeddedProgramStuckError) throw error;
    }
  }
}

async function removeWorkshop(folder: string, hands: Hands): Promise<void> {
  // As root, what is in the data is removed by its owner, who could put links there meanwhile.
  if (hands.account === undefined) await removeAsOwner(join(folder, "data"));
  await hands.remove(folder);
}

/** For root, in a folder of root's own. Some file systems take a chown and forget it, and any folder above may be closed: so really write a file. */
async function isUsableBy(account: ServerAccount, data: string): Promise<boolean> {
  try {
    await lchown(data, account.uid, account.gid);
  } catch {
    return false;
  }
  if ((await lstat(data)).uid !== account.uid) return false;
  const proof = join(data, "proof");
  const { exitCode } = await runProgram("/bin/sh", ["-c", ': > "$1" && rm "$1"', "sh", proof], account);
  return exitCode === 0;
}

async function workIn(
  workshop: Workshop,
  { binaries, account }: CreateOptions,
  putInPlace: (data: string) => Promise<void>,
): Promise<void> {
  const { hands } = workshop;
  try {
    await hands.write(workshop.password, `${randomBytes(24).toString("hex")}\n`);
    if (account !== undefined && hands.account === undefined) await lchown(workshop.password, account.uid, account.gid);
    await initialise(workshop, binaries, account);
    const inData = account === undefined ? OUR_HANDS : handsOf(account);
    // What is last in the file counts. Before PostgreSQL 16, initdb takes no settings itself.
    await inData.append(join(workshop.data, "postgresql.conf"), SETTINGS);
    // Inside the data folder, so that a database and its password can never be from two different beginnings.
    await hands.rename(workshop.password, join(workshop.data, PASSWORD_FILE));
    await putInPlace(workshop.data);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    // Someone else's database is already there, or our half-made one was cleared away: look again.
    const isOvertaken = code === "ENOTEMPTY" || code === "EEXIST" || !existsSync(workshop.folder);
    if (!isOvertaken) throw explainFileError(error, workshop.folder);
  } finally {
    await removeWorkshop(workshop.folder, hands);
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
  const { exitCode, output } = await runProgram(binaries.initdb, args, account, { timeoutMs: INITIALISATION_MS });
  if (exitCode !== 0) throw explainInitialisation(output, workshop.folder);
}

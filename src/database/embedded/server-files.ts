// What lies where in the folder of an embedded server, and how PostgreSQL's own small files are read.
import { access, lstat, readdir, readlink, realpath } from "node:fs/promises";
import { join, resolve } from "node:path";
import { EverbeatError } from "../../errors.ts";
import { bringBack } from "./deserted-name.ts";
import { EmbeddedDataDamagedError, EmbeddedFolderOfAnotherUserError } from "./embedded-errors.ts";
import { readFound } from "./found-file.ts";
import { SOCKET_FOLDER, SOCKET_PREFIX } from "./socket-folder.ts";

export const serverFiles = (folder: string) => ({
  /** The database: a folder, or a link to one where the server's user cannot reach this folder. */
  data: join(folder, "data"),
  log: join(folder, "postgres.log"),
  /** Held by the process that is starting the server. */
  turn: join(folder, "starting"),
  /** There while the server is stopped on purpose: only a new join may start it again. */
  stopped: join(folder, "stopped"),
});

export const PASSWORD_FILE = "everbeat-password";

/** Not named like the schema: "$user" stands first in the search path, and a user's own tables would end up among ours. */
export const SERVER_ROLE = "postgres";

/** Whoever removes deserted databases may set this one aside, or bring it back, again and again until it is in use. */
const LOOKED_FOR_MOST = 100;
/** Between the look for its name and the look for its link, others may have moved it both ways. */
const MISSED_MOST = 3;

/** The database's real place, or undefined while there is none. PostgreSQL reports the same path. */
export async function realDataFolder(folder: string): Promise<string | undefined> {
  const { data } = serverFiles(folder);
  const found = await realPathOf(data);
  if (found !== undefined) return found;
  const lostTarget = await readlink(data).catch(() => undefined);
  if (lostTarget === undefined) return undefined;
  const { uid } = await lstat(data);
  for (let looks = 0, missed = 0; looks < LOOKED_FOR_MOST && missed < MISSED_MOST; looks++) {
    if (!(await bringBack(resolve(folder, lostTarget), uid))) missed++;
    // Also where somebody else has brought it back.
    const place = await realPathOf(data);
    if (place !== undefined) return place;
  }
  // Not "no database yet": there was one, and a silent empty one in its place would look like lost work.
  throw new EmbeddedDataDamagedError(data, `it is a link to ${lostTarget}, which is gone`);
}

async function realPathOf(data: string): Promise<string | undefined> {
  try {
    return await realpath(data);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw unreadable(data, error);
  }
}

/** Stopped on purpose, or without a database. */
export async function isStoppedOrGone(folder: string): Promise<boolean> {
  const isStopped = await access(serverFiles(folder).stopped).then(
    () => true,
    () => false,
  );
  return isStopped || (await realDataFolder(folder)) === undefined;
}

export async function readPassword(dataFolder: string): Promise<string> {
  try {
    return (await readFound(join(dataFolder, PASSWORD_FILE))).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw unreadable(dataFolder, error);
    throw new EmbeddedDataDamagedError(dataFolder, `its password file ${PASSWORD_FILE} is missing`, { cause: error });
  }
}

export interface PostmasterFile {
  /** Never tested for life, only compared, or passed on to PostgreSQL as it was found; empty when the file holds none. */
  readonly processId: string;
  /** Which server it is: its process and its start. */
  readonly server: string;
  readonly port: number | undefined;
  /** It has a socket in its data folder. */
  readonly hasSocket: boolean;
  /** It listens on its port as well. Not known of one whose postmaster.pid was removed. */
  readonly hasPort: boolean;
  readonly isReady: boolean;
  readonly text: string;
}

export async function readPostmasterFile(dataFolder: string): Promise<PostmasterFile | undefined> {
  try {
    return parsePostmasterFile(await readFound(join(dataFolder, "postmaster.pid")));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw unreadable(dataFolder, error);
  }
}

/** Only a refusal means that it is another user's: a link that leads to itself, or a disk that fails, is something else. */
function unreadable(dataFolder: string, error: unknown): EverbeatError {
  if (error instanceof EverbeatError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "EACCES" || code === "EPERM") return new EmbeddedFolderOfAnotherUserError(dataFolder, { cause: error });
  return new EmbeddedDataDamagedError(dataFolder, `it cannot be read (${message})`, { cause: error });
}

/** The postmaster.pid; where that was removed, the lock file of the server's socket, which begins with the same lines. */
export async function readServerFile(dataFolder: string): Promise<PostmasterFile | undefined> {
  const file = await readPostmasterFile(dataFolder);
  if (file !== undefined) return file;
  for (const socket of await socketsIn(dataFolder)) {
    const text = await readFound(join(dataFolder, `${socket}.lock`)).catch(() => undefined);
    if (text !== undefined) return parsePostmasterFile(text);
  }
  return undefined;
}

/** The names of the sockets, also of those that a killed server left behind. */
export async function socketsIn(dataFolder: string): Promise<string[]> {
  const entries = await readdir(dataFolder, { withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isSocket() && entry.name.startsWith(SOCKET_PREFIX)).map(({ name }) => name);
}

/** Its lines: process, data folder, start, port, socket folder, address, shared memory, status. */
export function parsePostmasterFile(text: string): PostmasterFile {
  const lines = text.split("\n").map((line) => line.trim());
  const port = Number(lines[3]);
  return {
    // A negative one is that of a PostgreSQL for a single user.
    processId: /^-?\d+$/.test(lines[0] ?? "") ? String(lines[0]) : "",
    server: `${lines[0]} of ${lines[2]}`,
    port: port > 0 ? port : undefined,
    hasSocket: lines[4] === SOCKET_FOLDER,
    hasPort: (lines[5] ?? "") !== "",
    isReady: lines[7] === "ready",
    text,
  };
}

/** The port of the last start, which PostgreSQL keeps among its start options. */
export async function lastPort(dataFolder: string): Promise<number | undefined> {
  const options = await readFound(join(dataFolder, "postmaster.opts")).catch(() => "");
  const found = /"-p" "(\d+)"/.exec(options)?.[1];
  return found === undefined ? undefined : Number(found);
}

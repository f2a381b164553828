// Turns what the operating system or PostgreSQL said into the error that tells the user what to do. Pure.
import type { EverbeatError } from "../../errors.ts";
import {
  EmbeddedDataOpenError,
  EmbeddedDiskFullError,
  EmbeddedFolderNotWritableError,
  EmbeddedFolderOfAnotherUserError,
  EmbeddedInitialisationError,
  EmbeddedServerRefusedError,
  EmbeddedUserUnnamedError,
} from "./embedded-errors.ts";
import { EmbeddedBinariesUnusableError } from "./program-errors.ts";

/** There is a postmaster.pid: of another server, which may be removing it just now, or left behind, or cut short. */
const LOCK_FILE =
  /lock file "[^"]*" (?:already exists|is empty)|bogus data in lock file|could not remove old lock file "[^"]*": No such file/;

/** Reasons to simply try again: another server has the folder or had it a moment ago, or took the port first. */
const PASSING_OBSTACLES = [
  LOCK_FILE,
  /pre-existing shared memory block .* is still in use/,
  /could not bind [^\n]*: Address already in use/,
];

export function passingObstacle(output: string): string | undefined {
  for (const pattern of PASSING_OBSTACLES) {
    const found = pattern.exec(output);
    if (found !== null) return found[0];
  }
  return undefined;
}

/** The file system of a shared folder, as of Windows in a virtual machine, may have none. */
export const hasNoSockets = (output: string): boolean => /could not create any Unix-domain sockets/.test(output);

/** None of those that it was to listen on. */
export const hasNoPort = (output: string): boolean => /could not create any TCP\/IP sockets/.test(output);

export const isAboutLockFile = (obstacle: string): boolean => LOCK_FILE.test(obstacle);

export function explainRefusedStart(output: string, place: { dataFolder: string; logFile: string }): EverbeatError {
  const unusable = explainProgram("postgres", output);
  if (unusable !== undefined) return unusable;
  if (/No space left on device/.test(output)) return new EmbeddedDiskFullError(place.dataFolder);
  if (/has wrong ownership|Permission denied/.test(output))
    return new EmbeddedFolderOfAnotherUserError(place.dataFolder);
  if (/Read-only file system/.test(output)) return new EmbeddedFolderNotWritableError(place.dataFolder);
  if (/has invalid permissions/.test(output)) return new EmbeddedDataOpenError(place.dataFolder);
  return new EmbeddedServerRefusedError(place.logFile, output);
}

export function explainInitialisation(output: string, folder: string): EverbeatError {
  const unusable = explainProgram("initdb", output);
  if (unusable !== undefined) return unusable;
  if (/No space left on device/.test(output)) return new EmbeddedDiskFullError(folder);
  if (/Read-only file system|Permission denied/.test(output)) return new EmbeddedFolderNotWritableError(folder);
  if (/could not look up effective user ID/.test(output)) return new EmbeddedUserUnnamedError(output);
  return new EmbeddedInitialisationError(folder, output);
}

function explainProgram(program: string, output: string): EverbeatError | undefined {
  const cannotRun =
    /error while loading shared libraries|Library not loaded|version `\w+_[\d.]+' not found|could not be run|ENOENT/;
  return cannotRun.test(output) ? new EmbeddedBinariesUnusableError(program, output) : undefined;
}

/** A file in the place of a folder shows as ENOTDIR or EEXIST, a folder that cannot hold any, like /proc, as ENOENT. */
const NOT_WRITABLE = new Set(["EACCES", "EPERM", "EROFS", "ENOTDIR", "EEXIST", "ENOENT"]);

/** An error of our own file operations in `folder`; anything that is not about the folder comes back as it was. */
export function explainFileError(error: unknown, folder: string): unknown {
  const { code, writer } = (error ?? {}) as NodeJS.ErrnoException & { writer?: number };
  if (code === "ENOSPC" || code === "EDQUOT") return new EmbeddedDiskFullError(folder, { cause: error });
  if (code !== undefined && NOT_WRITABLE.has(code))
    return new EmbeddedFolderNotWritableError(folder, { cause: error, writer });
  return error;
}

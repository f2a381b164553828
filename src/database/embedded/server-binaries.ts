// Makes PostgreSQL's programs runnable by the user that the server runs as: in place if possible, else from a copy.
import { access, constants, realpath } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, relative, sep } from "node:path";
import { copyTreeAtomically } from "./copy-tree.ts";
import { readFound } from "./found-file.ts";
import { handsFor } from "./hands.ts";
import { otherOwner } from "./other-owner.ts";
import type { PlatformPackage } from "./platform-package.ts";
import { EmbeddedBinariesUnusableError, EmbeddedPackageDamagedError } from "./program-errors.ts";
import { runProgram } from "./run-program.ts";
import { systemBinariesFolder } from "./system-folder.ts";
import type { ServerAccount } from "./users.ts";

export interface ServerBinaries {
  readonly postgres: string;
  readonly initdb: string;
  readonly pgCtl: string;
  /** Of PostgreSQL itself, as in a data folder's PG_VERSION: "18". */
  readonly major: string;
}

export async function prepareBinaries(options: {
  found: PlatformPackage;
  account: ServerAccount | undefined;
  folder: string;
  onProgress: (message: string) => void;
}): Promise<ServerBinaries> {
  const { found, account, folder } = options;
  const mended = await mend(found.root).then(
    () => true,
    () => false, // Not ours to write, as in a read-only image: the copy below is.
  );
  const inPlace = await tryToRun(found.root, account);
  if (mended && inPlace.major !== undefined) return programsIn(found.root, inPlace.major);

  // As an ordinary user a copy helps only where the original could not be mended.
  if (mended && account === undefined) throw new EmbeddedBinariesUnusableError(found.root, inPlace.output);
  const owner = await otherOwner(found.root);
  const copy =
    account === undefined
      ? join(folder, `postgres-${found.version}`)
      : await systemBinariesFolder(found.version, owner ?? 0);
  if (!(await exists(copy))) {
    options.onProgress(`copying PostgreSQL's programs to ${copy}, where the server's user can run them (60 MB, once)`);
    const hands = await handsFor(found.root);
    await copyTreeAtomically({ from: found.root, to: copy, hands, owner, finish: mend });
  }
  const copied = await tryToRun(copy, account);
  if (copied.major === undefined) throw new EmbeddedBinariesUnusableError(programsIn(copy, "").postgres, copied.output);
  return programsIn(copy, copied.major);
}

function programsIn(root: string, major: string): ServerBinaries {
  const program = (name: string) => join(root, "native", "bin", process.platform === "win32" ? `${name}.exe` : name);
  return { postgres: program("postgres"), initdb: program("initdb"), pgCtl: program("pg_ctl"), major };
}

/** Running it is the only test that counts: folders above, libraries and mount options all have a say. */
async function tryToRun(
  root: string,
  account: ServerAccount | undefined,
): Promise<{ major: string | undefined; output: string }> {
  const { output } = await runProgram(programsIn(root, "").postgres, ["--version"], account);
  return { major: /PostgreSQL\) (\d+)/.exec(output)?.[1], output };
}

/** Does what the package's install script would have done: npm runs no install scripts without the user's consent. */
async function mend(root: string): Promise<void> {
  const { postgres, initdb, pgCtl } = programsIn(root, "");
  const hands = await handsFor(root);
  for (const program of [postgres, initdb, pgCtl]) {
    if (await isExecutable(program)) continue;
    await refuseWayOut(root, program);
    await hands.makeExecutable(program);
  }
  for (const { source, target } of await listedLinks(root)) {
    const link = join(root, target);
    if (await exists(link)) continue;
    await refuseWayOut(root, link);
    await hands.symlink(relative(dirname(link), join(root, source)), link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
}

/** Another user may have written the list, and root makes the links: none is made outside the package, or leads there. */
async function listedLinks(root: string): Promise<Array<{ source: string; target: string }>> {
  const file = join(root, "native", "pg-symlinks.json");
  const list = linksIn(await readFound(file).catch(() => "[]"));
  const isInside = (path: unknown) => typeof path === "string" && leadsInside(root, join(root, path));
  if (list?.every((entry) => isInside(entry?.source) && isInside(entry?.target)) !== true)
    throw new EmbeddedPackageDamagedError(file, "is no list of links within the package");
  return list;
}

function linksIn(text: string): Array<{ source: string; target: string }> | undefined {
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) ? list : undefined;
  } catch {
    return undefined;
  }
}

/** Also a folder on the way to it can be a link. */
async function refuseWayOut(root: string, path: string): Promise<void> {
  if (leadsInside(await realpath(root), join(await realpath(dirname(path)), basename(path)))) return;
  throw new EmbeddedPackageDamagedError(path, "is not within the package");
}

function leadsInside(root: string, path: string): boolean {
  const way = relative(root, path);
  return way !== "" && way.split(sep)[0] !== ".." && !isAbsolute(way);
}

async function isExecutable(program: string): Promise<boolean> {
  return await access(program, constants.X_OK).then(
    () => true,
    () => false,
  );
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}

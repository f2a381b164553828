// Makes PostgreSQL's programs runnable by the user that the server runs as: in place if possible, else from a copy.
import { access, constants } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { copyTreeAtomically } from "./copy-tree.ts";
import { EmbeddedBinariesUnusableError } from "./embedded-errors.ts";
import { readFound } from "./found-file.ts";
import { handsFor } from "./hands.ts";
import { otherOwner } from "./other-owner.ts";
import type { PlatformPackage } from "./platform-package.ts";
import { runProgram } from "./run-program.ts";
import type { ServerAccount } from "./server-account.ts";
import { systemBinariesFolder } from "./system-folder.ts";

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
  const owner = (await otherOwner(found.root))?.uid;
  const copy =
    account === undefined
      ? join(folder, `postgres-${found.version}`)
      : await systemBinariesFolder(found.version, owner ?? 0);
  if (!(await exists(copy))) {
    options.onProgress(`copying PostgreSQL's programs to ${copy}, where the server's user can run them (60 MB, once)`);
    await copyTreeAtomically({ from: found.root, to: copy, owner, finish: mend });
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
    if (!(await isExecutable(program))) await hands.makeExecutable(program);
  }
  for (const { source, target } of await listedLinks(root)) {
    const link = join(root, target);
    if (await exists(link)) continue;
    await hands.symlink(relative(dirname(link), join(root, source)), link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
}

async function listedLinks(root: string): Promise<Array<{ source: string; target: string }>> {
  const list = await readFound(join(root, "native", "pg-symlinks.json")).catch(() => "[]");
  return JSON.parse(list) as Array<{ source: string; target: string }>;
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

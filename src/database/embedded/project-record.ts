// Beside a database under /var/lib/everbeat: whose it is, so that nobody has to guess later whether its project was deleted.
import { randomUUID } from "node:crypto";
import { lstat, open, readFile, realpath, rename } from "node:fs/promises";
import { dirname } from "node:path";

export const RECORD = ".project";

export interface ProjectRecord {
  /** The project's `.everbeat`, as it was called at the last start. */
  readonly folder: string;
  /** The folder around it, and no other that has the same name later. */
  readonly project: string;
  /** The user whom `.everbeat/data` belongs to. */
  readonly owner: number;
}

/** undefined: nobody has used the database yet. */
export async function readRecord(dataFolder: string): Promise<ProjectRecord | undefined> {
  try {
    return JSON.parse(await readFile(dataFolder + RECORD, "utf8")) as ProjectRecord;
  } catch (error) {
    // A record that a power failure cut short is written anew at the next start.
    if ((error as NodeJS.ErrnoException).code === "ENOENT" || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

export async function recordOf(folder: string, owner: number): Promise<ProjectRecord> {
  const real = await realpath(folder);
  return { folder: real, project: await identityOf(dirname(real)), owner };
}

/** In one step: whoever reads it finds it whole. */
export async function writeRecord(dataFolder: string, record: ProjectRecord): Promise<void> {
  const aside = `${dataFolder}${RECORD}-${randomUUID()}`;
  const handle = await open(aside, "wx", 0o600);
  try {
    await handle.writeFile(`${JSON.stringify(record)}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(aside, dataFolder + RECORD);
}

/** The disk, the number and the birth of a folder: a number is given out again, and another disk can be mounted in the place of one. */
export async function identityOf(folder: string): Promise<string> {
  const { dev, ino, birthtimeNs } = await lstat(folder, { bigint: true });
  return `${dev}:${ino}:${birthtimeNs}`;
}

// A database whose project seems to be deleted is set aside under a name that says since when, and is back as soon as a link to it is used.
//
// One rename takes it out of the way, one brings it back, and one begins its removal: of two that happen at once, only one succeeds.
import { readdir, rename } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { EmbeddedFolderOfAnotherUserError } from "./embedded-errors.ts";
import { readRecord } from "./project-record.ts";
import { isSystemData } from "./system-folder.ts";

const DESERTED = /^(data-\w+)\.deserted-(\d{4}-\d\d-\d\d)$/;

/** `dataFolder`: its usual name. `since`: a day, as in 2026-02-28. */
export interface Deserted {
  readonly path: string;
  readonly dataFolder: string;
  readonly since: string;
}

export const dayOf = (time: Date): string => time.toISOString().slice(0, 10);

export const desertedNameOf = (dataFolder: string, since: Date): string => `${dataFolder}.deserted-${dayOf(since)}`;

export async function desertedIn(systemProject: string): Promise<Deserted[]> {
  const names = await readdir(systemProject).catch(() => []);
  return names.flatMap((name) => {
    const [, data, since] = DESERTED.exec(name) ?? [];
    if (data === undefined || since === undefined) return [];
    return [{ path: join(systemProject, name), dataFolder: join(systemProject, data), since }];
  });
}

/**
 * True when it had been set aside, and is there again. `linkOwner`: whose the link to it is. Root's may lead anywhere; another user may
 * have made one to the database of somebody else, which then stays where it is.
 */
export async function bringBack(dataFolder: string, linkOwner = 0): Promise<boolean> {
  if (process.getuid?.() !== 0 || !isSystemData(dataFolder)) return false;
  const record = linkOwner === 0 ? undefined : await readRecord(dataFolder);
  if (record !== undefined && record.owner !== linkOwner) throw new EmbeddedFolderOfAnotherUserError(dataFolder);
  const aside = (await desertedIn(dirname(dataFolder))).find((found) => found.dataFolder === dataFolder);
  if (aside === undefined) return false;
  return await rename(aside.path, dataFolder).then(
    () => true,
    () => false,
  );
}

export const isDataName = (name: string): boolean => /^data-\w+$/.test(basename(name));

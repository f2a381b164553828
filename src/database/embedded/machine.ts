// Where a server runs: the machine and the container, within which a process id, shared memory and a port mean something.
//
// Two containers that share a folder share neither of those. To the second, the server of the first is not there, and
// PostgreSQL's own interlock does not see it either: both would write into one database. So whoever starts a server writes
// down where, its keeper and those who are joined touch that as long as they live, and whoever is elsewhere looks whether
// somebody still does.
import { readFileSync, readlinkSync } from "node:fs";
import { lstat } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { EmbeddedServerElsewhereError } from "./embedded-errors.ts";
import { openToRead, readFound } from "./found-file.ts";
import { handsFor } from "./hands.ts";

const placeFile = (dataFolder: string) => join(dataFolder, "everbeat-place");
const LOOK_INTERVAL_MS = 100;
/** Long enough for a keeper to be replaced by another. */
const LOOKS = 40;

/** The kernel's boot and the container, or what stands for both where they do not show; elsewhere than on Linux, there are none. */
function placeHere(): string {
  if (process.platform !== "linux") return process.platform;
  try {
    const spaces = ["pid", "ipc", "net"].map((space) => readlinkSync(`/proc/self/ns/${space}`));
    return [readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim(), ...spaces].join(" ");
  } catch {
    return hostname();
  }
}

const readPlace = (dataFolder: string) => readFound(placeFile(dataFolder)).catch(() => undefined);

export async function isFromHere(dataFolder: string): Promise<boolean> {
  const place = await readPlace(dataFolder);
  return place === undefined || place === placeHere();
}

/** By whoever starts the server, in the turn of those who do. */
export async function markPlace(dataFolder: string): Promise<void> {
  if ((await readPlace(dataFolder)) === placeHere()) return;
  const hands = await handsFor(dataFolder);
  await hands.write(placeFile(dataFolder), placeHere());
}

/** By all who are joined from here, and by the keeper. */
export async function touchPlace(dataFolder: string): Promise<void> {
  if (!(await isFromHere(dataFolder))) return;
  const file = await openToRead(placeFile(dataFolder)).catch(() => undefined);
  await file?.utimes(new Date(), new Date()).catch(() => {});
  await file?.close();
}

/** For a database with a postmaster.pid, whose server does not answer. */
export async function refuseIfServedElsewhere(dataFolder: string): Promise<void> {
  if (await isFromHere(dataFolder)) return;
  const touched = async () => (await lstat(placeFile(dataFolder), { bigint: true })).mtimeNs;
  const before = await touched();
  for (let look = 0; look < LOOKS; look++) {
    await pause(LOOK_INTERVAL_MS);
    if ((await touched()) !== before) throw new EmbeddedServerElsewhereError(dataFolder);
  }
}

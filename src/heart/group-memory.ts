/**
 * The memory of all processes that share a limit with this one: its cgroup's own figures, of version 2 or 1. When the kernel kills one of them, it may be
 * a small one, and its own memory says nothing.
 *
 * `memory.failcnt` (version 1) and `max` in `memory.events` (version 2) are not read. They count how often the limit was reached, and each time the kernel
 * took back the cache of files instead of killing they count, too: in a container that reads files they rise all day. Version 1 does not count kills
 * before Linux 4.13. There only the use of the group is known, at two looks a second.
 */
import { basename, dirname, join } from "node:path";
import type { GroupMemory } from "../task/death.ts";
import { limitFiles, readText } from "./memory-limit.ts";

export interface GroupFigures {
  /** Of the group with the smallest limit, without the cache of files, which the kernel can take back. */
  readonly used: number;
  readonly limit: number;
  /** How many processes the kernel has killed there for want of memory; undefined where it does not count them. */
  readonly kills: number | undefined;
}

/** Undefined where no group has a limit. */
export function readGroupMemory(root = "/"): GroupFigures | undefined {
  const files = filesOfOwn(root);
  const smallest = smallestOf(files);
  return smallest && { used: smallest.used, limit: smallest.limit, kills: killsIn(smallest, files.map(dirname)) };
}

/** The same without the kills, for each beat of a heart: 0.1 ms where no group has a limit, and 0.2 ms where one has. */
export function readGroupUse(): Pick<GroupFigures, "used" | "limit"> | undefined {
  return smallestOf(filesOfOwn("/"));
}

function filesOfOwn(root: string): string[] {
  const files = new Set(limitFiles(readText(join(root, "proc/self/cgroup")) ?? ""));
  return [...files].map((file) => join(root, file));
}

function smallestOf(files: readonly string[]): Group | undefined {
  return files.flatMap(readGroup).sort((a, b) => a.limit - b.limit)[0];
}

/**
 * Keeps the last two looks. The end of a process may be told of only after the latest look: then that look shows what the group held after the
 * kernel's kill, and the one before shows what it held until then.
 */
export class GroupMemoryWatch {
  readonly #read: () => GroupFigures | undefined;
  #last: GroupFigures | undefined;
  #before: GroupFigures | undefined;

  constructor(read: () => GroupFigures | undefined = readGroupMemory) {
    this.#read = read;
    this.#last = read();
  }

  look(): void {
    this.#before = this.#last;
    this.#last = this.#read();
  }

  /** As of now. A process that was killed has given its memory back, so the most of the last looks counts. */
  sign(): GroupMemory | undefined {
    return signOf([this.#before, this.#last, this.#read()]);
  }
}

/** From looks in their order. */
export function signOf(looks: readonly (GroupFigures | undefined)[]): GroupMemory | undefined {
  const known = looks.filter((look) => look !== undefined);
  const last = known.at(-1);
  if (!last) return undefined;
  const counts = known.flatMap(({ kills }) => kills ?? []);
  const kills = Math.max(0, (counts.at(-1) ?? 0) - (counts[0] ?? 0));
  return { used: Math.max(...known.map(({ used }) => used)), limit: last.limit, kills };
}

const FILES = [
  { limit: "memory.max", used: "memory.current", cache: ["active_file", "inactive_file"], kills: "memory.events" },
  {
    ...{ limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes", kills: "memory.oom_control" },
    cache: ["total_active_file", "total_inactive_file"],
  },
] as const;
interface Group {
  readonly used: number;
  readonly limit: number;
  readonly folder: string;
  /** The file that counts kills. */
  readonly kills: (typeof FILES)[number]["kills"];
}

/** Version 1 says "no limit" with a number beyond all memory. */
const NO_LIMIT = 2 ** 60;

/** Most groups have no limit, and then nothing else of them is read: this is done again and again. */
function readGroup(limitFile: string): Group[] {
  const files = FILES.find(({ limit }) => limit === basename(limitFile));
  const limit = numberIn(limitFile);
  if (!files || !(limit > 0 && limit < NO_LIMIT)) return [];
  const folder = dirname(limitFile);
  const used = numberIn(join(folder, files.used));
  if (!(used >= 0)) return [];
  const stat = readText(join(folder, "memory.stat")) ?? "";
  const cache = files.cache.reduce((sum, name) => sum + (fieldOf(stat, name) ?? 0), 0);
  return [{ used: Math.max(0, used - cache), limit, folder, kills: files.kills }];
}

/**
 * Version 2 counts a kill in the victim's group and in all above it. Version 1 counts it in the victim's own group alone, which need not be the one whose
 * limit was reached: so all groups count that this process is in, up to that one.
 */
function killsIn({ folder, kills }: Group, own: readonly string[]): number | undefined {
  const isCountedBelow = kills === "memory.oom_control";
  const folders = own.filter((each) => each === folder || (isCountedBelow && each.startsWith(`${folder}/`)));
  const counts = folders.flatMap((each) => fieldOf(readText(join(each, kills)) ?? "", "oom_kill") ?? []);
  return counts.length === 0 ? undefined : counts.reduce((sum, count) => sum + count, 0);
}

/** NaN where there is none. */
function numberIn(file: string): number {
  return Number(readText(file)?.trim() || Number.NaN);
}

/** "name value", one in a line. */
function fieldOf(text: string, name: string): number | undefined {
  const [, value] = new RegExp(`^${name} (\\d+)$`, "m").exec(text) ?? [];
  return value === undefined ? undefined : Number(value);
}

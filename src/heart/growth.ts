/**
 * Whose growth filled a limit that several processes share. The kernel kills the largest of them. That may be one which has not grown at all: then it
 * stood where the memory of somebody else ran out. Where it has grown more than all the others together in the last moments, the memory ran out by it.
 */
import { join } from "node:path";
import type { GroupMemory } from "../task/death.ts";
import { type GroupFigures, GroupMemoryWatch, readGroupMemory } from "./group-memory.ts";
import { readText } from "./memory-limit.ts";

/** Of the group, and of one process in it. */
export interface GrowthLook {
  readonly used: number;
  readonly own: number;
  /** How many processes the kernel had killed in the group. */
  readonly kills: number;
}

/** So many looks are kept: about two seconds. What had grown before that stands still now, and others fill the limit. */
const MOST_LOOKS = 5;
/** In the last of them it must have grown most as well: it may have taken what it needs, and stand still since. */
const LAST_LOOKS = 3;
/** What a process takes and gives back all the time is less than that share of the limit. */
const MEANT = 0.02;
/**
 * After the latest look, growth is only estimated: what is missing in the group after the kill was the killed one's. The cache of files that the kernel
 * had left counts as well there.
 */
const MEANT_SINCE = 0.2;

interface Look {
  readonly figures: GroupFigures;
  readonly own: ReadonlyMap<number, number>;
}

export class GrowthWatch {
  readonly #group: GroupMemoryWatch;
  readonly #pids: () => readonly number[];
  readonly #readOwn: (pid: number) => number | undefined;
  #figures: GroupFigures | undefined;
  #looks: readonly Look[] = [];

  /** `pids`: those of whose end somebody may ask. */
  constructor(
    pids: () => readonly number[],
    read: () => GroupFigures | undefined = readGroupMemory,
    readOwn: (pid: number) => number | undefined = readOwnMemory,
  ) {
    this.#pids = pids;
    this.#readOwn = readOwn;
    this.#group = new GroupMemoryWatch(() => {
      this.#figures = read();
      return this.#figures;
    });
  }

  look(): void {
    this.#group.look();
    const figures = this.#figures;
    if (!figures) return;
    const own = this.#pids().flatMap((pid) => {
      const bytes = this.#readOwn(pid);
      return bytes === undefined ? [] : [[pid, bytes] as const];
    });
    this.#looks = [...this.#looks, { figures, own: new Map(own) }].slice(-MOST_LOOKS);
  }

  /** As of now, when this process has just ended. */
  sign(pid: number | undefined): GroupMemory | undefined {
    const sign = this.#group.sign();
    if (!sign || pid === undefined) return sign;
    const after = this.#figures ?? { used: sign.used, kills: undefined };
    const looks = this.#looksAt(pid);
    return { ...sign, grewMost: grewMost(looks, { ...withKills(after), limit: sign.limit }) };
  }

  /** One that has been started since the last look had nothing then. */
  #looksAt(pid: number): GrowthLook[] {
    const seen = this.#looks.filter(({ own }) => own.has(pid));
    const looks = seen.length > 0 ? seen : this.#looks.slice(-1);
    return looks.map(({ figures, own }) => ({ ...withKills(figures), own: own.get(pid) ?? 0 }));
  }
}

/** `used` and `kills`: when the process had ended. */
export function grewMost(
  looks: readonly GrowthLook[],
  { used, kills, limit }: { used: number; kills: number; limit: number },
): boolean {
  const last = looks.at(-1);
  if (!last) return false;
  if (grewMostIn(looks, MEANT * limit) && grewMostIn(looks.slice(-LAST_LOOKS), 0)) return true;
  // Of several that were killed since, nobody knows how much was whose.
  if (kills - last.kills !== 1) return false;
  const own = limit - used - last.own;
  const others = used - (last.used - last.own);
  return own >= MEANT_SINCE * limit && own > others;
}

function grewMostIn(looks: readonly GrowthLook[], atLeast: number): boolean {
  const [first, last] = [looks[0], looks.at(-1)];
  if (!first || !last) return false;
  const own = last.own - first.own;
  const others = last.used - last.own - (first.used - first.own);
  return own > 0 && own >= atLeast && own > others;
}

function withKills({ used, kills = 0 }: Pick<GroupFigures, "used" | "kills">): { used: number; kills: number } {
  return { used, kills };
}

/** Without what it shares with others, such as the files of its program. Undefined where there is no `/proc`, and once it has ended. */
export function readOwnMemory(pid: number, root = "/"): number | undefined {
  const status = readText(join(root, `proc/${pid}/status`)) ?? "";
  const [, kilobytes] = /^RssAnon:\s+(\d+) kB$/m.exec(status) ?? [];
  return kilobytes === undefined ? undefined : Number(kilobytes) * 1_024;
}

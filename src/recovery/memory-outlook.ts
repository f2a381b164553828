/** Memory against its limit over the last beats, and where it was heading; whether a kill was for want of it. Pure. */
import type { GroupMemory } from "../task/death.ts";

export interface Memory {
  readonly rss: number;
  readonly limit: number;
  /** How long before the end that was. */
  readonly agoMs: number;
  /** By so much it had grown per second, over the beats on record; zero where it had not. */
  readonly growthPerSecond: number;
}

export interface MemorySample {
  readonly agoMs: number;
  readonly rss: number;
  readonly limit: number;
}

/** A kernel kills before the last byte is used, and what a beat says is up to a beat old. */
const NEAR = 0.9;

/** From samples of any order. Undefined where there is none. */
export function memoryOutlook(samples: readonly MemorySample[]): Memory | undefined {
  const [last, before] = [...samples].sort((a, b) => a.agoMs - b.agoMs).filter(({ limit }) => limit > 0);
  if (!last) return undefined;
  const seconds = before ? (before.agoMs - last.agoMs) / 1_000 : 0;
  const growthPerSecond = before && seconds > 0 ? Math.max(0, (last.rss - before.rss) / seconds) : 0;
  return { rss: last.rss, limit: last.limit, agoMs: last.agoMs, growthPerSecond };
}

/** The memory of its cgroup as its last two beats told it, where nobody was there to see more. No beat tells of kills. */
export function groupAtLast(
  beats: readonly { readonly agoMs: number; readonly vitals: Readonly<Record<string, number>> | null }[],
): GroupMemory | undefined {
  const told = [...beats]
    .sort((a, b) => a.agoMs - b.agoMs)
    .flatMap(({ vitals }) => {
      const { groupUsed = 0, groupLimit = 0 } = vitals ?? {};
      return groupLimit > 0 ? [{ used: groupUsed, limit: groupLimit }] : [];
    });
  const [last, before] = told;
  return last && { used: Math.max(last.used, before?.used ?? 0), limit: last.limit, kills: 0 };
}

/** It was at its limit when it was last heard. */
export function isAtItsLimit({ rss, limit }: Memory): boolean {
  return rss >= NEAR * limit;
}

/** The same, or it was bound to be by the end, at the rate at which it grew. */
export function isNearItsLimit(memory: Memory | undefined): boolean {
  if (!memory) return false;
  const { rss, limit, agoMs, growthPerSecond } = memory;
  return isAtItsLimit(memory) || (rss >= limit / 2 && rss + (growthPerSecond * agoMs) / 1_000 >= limit);
}

/** Why a process was killed (SIGKILL) for want of memory. */
export interface WantOfMemory {
  /** The kernel has counted the kill. Otherwise it is only probable. */
  readonly isCounted: boolean;
  /**
   * Its cgroup had no memory left, and it did not fill the limit by itself. The kernel takes the largest process, which need not be the one that
   * grew. That it grew is no proof: it may have been about to stop.
   */
  readonly isShared: boolean;
}

/** Undefined where there was memory left, as far as that is known. */
export function wantOfMemory(memory: Memory | undefined, group: GroupMemory | undefined): WantOfMemory | undefined {
  const isCounted = group !== undefined && group.kills > 0;
  const isFull = isCounted || (group !== undefined && group.used >= NEAR * group.limit);
  if (!isFull && !isNearItsLimit(memory)) return undefined;
  return { isCounted, isShared: isFull && !(memory && isAtItsLimit(memory)) };
}

export function memoryWords(memory: Memory): string {
  const { rss, limit, growthPerSecond } = memory;
  const share = Math.round((100 * rss) / limit);
  const growth = growthPerSecond >= MIB ? `, growing by ${mib(growthPerSecond)} MiB a second` : "";
  return `memory: ${mib(rss)} of ${mib(limit)} MiB (${share} %) at its last beat${growth}`;
}

const MIB = 1_048_576;

function mib(bytes: number): number {
  return Math.round(bytes / MIB);
}

/** How a process is doing: what a beat carries besides being there. */
import { readGroupUse } from "./group-memory.ts";
import { readMemoryLimit } from "./memory-limit.ts";
import { residentMemoryReader } from "./resident-memory.ts";
import type { SharedState } from "./shared-state.ts";

export interface Vitals extends OwnVitals {
  /** The memory of all processes that share a limit with this one, and that limit. Zero where no cgroup of it has a limit. */
  readonly groupUsed: number;
  readonly groupLimit: number;
}

/** Those of the process alone. */
export interface OwnVitals {
  /** Resident memory, against what the process may have before it is killed for it. */
  readonly rss: number;
  readonly memoryLimit: number;
  readonly heapUsed: number;
  /** The event loop's delay since the last beat. */
  readonly loopP50Ms: number;
  readonly loopP99Ms: number;
  readonly loopMaxMs: number;
  /** How long the main thread has not turned its loop: alive and blocked is not the same as dead. */
  readonly blockedForMs: number;
  /** Cores used since the last beat. */
  readonly cpu: number;
  readonly inHand: number;
}

export function createVitals(shared: SharedState, steadyNow: () => number): () => OwnVitals {
  const residentMemory = residentMemoryReader();
  let last = { cpu: process.cpuUsage(), at: steadyNow() };
  return () => {
    const now = { cpu: process.cpuUsage(), at: steadyNow() };
    const usedMicros = now.cpu.user + now.cpu.system - last.cpu.user - last.cpu.system;
    const cpu = usedMicros / 1_000 / Math.max(1, now.at - last.at);
    last = now;
    shared.set("beats", shared.get("beats") + 1);
    // What changes least comes first, so that a beat writes less (see the table).
    return {
      // Each time: a container's limit can be changed while it runs.
      memoryLimit: readMemoryLimit(),
      inHand: shared.get("inHand"),
      rss: residentMemory(),
      heapUsed: shared.get("heapUsed"),
      loopP50Ms: round(shared.get("delayP50Ms"), 1),
      loopP99Ms: round(shared.get("delayP99Ms"), 1),
      loopMaxMs: round(shared.get("delayMaxMs"), 1),
      blockedForMs: Math.max(0, Math.round(now.at - shared.get("tickedAtMs"))),
      cpu: round(cpu, 2),
    };
  };
}

/** With those of the group: for a replica's heart. Whoever is killed along with all others of its container leaves them on record. */
export function createReplicaVitals(shared: SharedState, steadyNow: () => number): () => Vitals {
  const own = createVitals(shared, steadyNow);
  return () => {
    const group = readGroupUse();
    return { groupLimit: group?.limit ?? 0, groupUsed: group?.used ?? 0, ...own() };
  };
}

function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}

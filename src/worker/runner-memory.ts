/** A runner's own memory against its limit, as its last two beats told it. Pure. */
import { type Memory, type MemorySample, memoryOutlook } from "../recovery/memory-outlook.ts";
import type { RunnerVitals } from "../runner/protocol.ts";
import type { RunnerDeath } from "../runner/runner-death.ts";

export function runnerMemory({ silentForMs, vitals, earlier }: RunnerDeath): Memory | undefined {
  return memoryOutlook([...sample(silentForMs, vitals), ...sample(earlier?.agoMs ?? 0, earlier?.vitals)]);
}

function sample(agoMs: number, vitals: RunnerVitals | undefined): MemorySample[] {
  return vitals?.rss === undefined ? [] : [{ agoMs, rss: vitals.rss, limit: vitals.memoryLimit ?? 0 }];
}

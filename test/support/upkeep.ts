/** Upkeep in the test's own process, whose turn it always is. */
import { newReplicaId } from "../../src/task/ids.ts";
import { upkeepService } from "../../src/upkeep/upkeep.ts";

export function createUpkeep(parts: Parameters<typeof upkeepService>[0]): { runOnce(): Promise<void> } {
  const upkeep = upkeepService(parts);
  return { runOnce: () => upkeep.runOnce({ by: newReplicaId(), signal: new AbortController().signal }) };
}

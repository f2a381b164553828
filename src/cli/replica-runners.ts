/** The threads and processes of a replica, in a few words. */
import type { RunnerRow } from "../sql/runners.ts";

/** Those that have not ended. */
export function runnersByReplica(runners: readonly RunnerRow[]): ReadonlyMap<string, readonly RunnerRow[]> {
  const found = new Map<string, RunnerRow[]>();
  for (const runner of runners) {
    if (runner.status === "ended") continue;
    found.set(runner.replicaId, [...(found.get(runner.replicaId) ?? []), runner]);
  }
  return found;
}

/** "process 812 busy, thread idle". */
export function runnersWords(runners: readonly RunnerRow[]): string {
  return runners.map(({ kind, pid, status }) => `${kind === "process" ? `process ${pid}` : kind} ${status}`).join(", ");
}

/** Whether the switches of automatic recovery are on, and whether all workers agree. */
import { advise } from "../advice.ts";
import { formatDuration } from "../config/duration.ts";
import type { RecoverySettings } from "../config/recovery-options.ts";
import type { Database } from "../database/database.ts";
import { type ReplicaSettings, readFleetSettings } from "../sql/fleet-settings.ts";
import { type Finding, good, skipped, warning } from "./finding.ts";

export async function checkRecoverySwitches(database: Database): Promise<Finding> {
  return judgeSwitches(await readFleetSettings(database));
}

export function judgeSwitches(fleet: readonly ReplicaSettings[]): Finding {
  const [first] = fleet;
  if (!first) return skipped("recovery", "no worker has said by which settings it recovers");
  const off = fleet.flatMap(({ settings }) => switchedOff(settings));
  if (off.length > 0) {
    const found = `switched off: ${[...new Set(off)].join(", ")}; a dead worker's tasks stay until recovered by hand`;
    return warning(
      "recovery",
      found,
      "Take the option out of the workers' `recovery` settings.",
      advise("See what there is to recover by hand.", "recovery.stale", {}),
      advise("See what recovery by hand would do.", "recovery.recover", { dryRun: true }),
    );
  }
  if (new Set(fleet.map(({ settings }) => JSON.stringify(settings))).size > 1) {
    const found = "the workers have different recovery settings; those of whoever sweeps count, and that changes";
    return warning("recovery", found, "Give all workers the same `recovery` settings.");
  }
  return good("recovery", describe(first.settings));
}

function switchedOff({ requeuesClaimed, recoversRunning }: RecoverySettings): string[] {
  const off: string[] = [];
  if (!requeuesClaimed) off.push("autoRequeueStaleClaimed");
  if (!recoversRunning) off.push("autoFailStaleRunning");
  return off;
}

function describe({ profile, claimedDeadAfterMs, runningDeadAfterMs }: RecoverySettings): string {
  const ages =
    claimedDeadAfterMs === runningDeadAfterMs
      ? formatDuration(runningDeadAfterMs)
      : `${formatDuration(claimedDeadAfterMs)} (claimed) or ${formatDuration(runningDeadAfterMs)} (running)`;
  return `on, profile "${profile}": a worker is dead after a silence of more than ${ages}`;
}

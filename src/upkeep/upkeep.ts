/** Expires, unparks, forces overdue cancellations and purges ended tasks: a service of the cluster. */
import type { Database } from "../database/database.ts";
import { isAway } from "../database/transient.ts";
import type { Events } from "../events.ts";
import type { ClusterService } from "../services/cluster-services.ts";
import { SERVICES } from "../services/list.ts";
import { type Retention, runUpkeep } from "../sql/upkeep.ts";
import { passedByUpkeep, runUpkeepInParts } from "./upkeep-in-parts.ts";

const BATCH = 500;

/** Two may be at it for a moment, and the second leaves it: see run_upkeep. */
export function upkeepService(parts: {
  database: Database;
  events: Events;
  retention: Retention;
  onError: (error: unknown) => void;
}): ClusterService {
  const { database, events, retention } = parts;
  const passedBy = passedByUpkeep(parts);
  const runWhole = async () => {
    const report = await runUpkeep(database, retention, BATCH);
    if (!report) return undefined;
    // Not the alerts about single purged tasks: the database keeps which of them are over.
    const { "purged tasks": _, ...others } = passedBy;
    for (const part of Object.values(others)) await part.settleAll();
    return report;
  };
  return {
    ...{ name: "upkeep", everyMs: SERVICES.upkeep.everyMs, doing: "doing upkeep" },
    async runOnce({ signal }) {
      while (!signal.aborted) {
        const report = await runWhole().catch(async (error: unknown) => {
          if (isAway(error)) throw error;
          // One row of it, or one part, must not keep the rest from being done.
          return runUpkeepInParts({ database, retention, passedBy, batch: BATCH }, error);
        });
        // Another process does the upkeep at this moment: this one has found out nothing.
        if (!report) return;
        const { expired, unparked, cancelled, purged } = report;
        if (expired + unparked + cancelled + purged > 0) events.emit("upkeep.done", report);
        if (Math.max(expired, purged) < BATCH) return;
      }
    },
  };
}

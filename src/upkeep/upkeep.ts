/** Expires and unparks tasks, and forces overdue cancellations: a service of the cluster. */
import type { Database } from "../database/database.ts";
import { isAway } from "../database/transient.ts";
import type { Events } from "../events.ts";
import type { ClusterService } from "../services/cluster-service.ts";
import { SERVICES } from "../services/list.ts";
import { runUpkeep } from "../sql/upkeep.ts";
import { passedByUpkeep, runUpkeepInParts } from "./upkeep-in-parts.ts";

const BATCH = 500;

/** Two may be at it for a moment, and the second leaves it: see run_upkeep. */
export function upkeepService(parts: {
  database: Database;
  events: Events;
  onError: (error: unknown) => void;
}): ClusterService {
  const { database, events } = parts;
  const passedBy = passedByUpkeep(parts);
  const runWhole = async () => {
    const report = await runUpkeep(database, BATCH);
    if (!report) return undefined;
    for (const part of Object.values(passedBy)) await part.settleAll();
    return report;
  };
  return {
    ...{ name: "upkeep", everyMs: SERVICES.upkeep.everyMs, doing: "doing upkeep" },
    async runOnce({ signal }) {
      while (!signal.aborted) {
        const report = await runWhole().catch(async (error: unknown) => {
          if (isAway(error)) throw error;
          // One row of it, or one part, must not keep the rest from being done.
          return runUpkeepInParts({ database, passedBy, batch: BATCH }, error);
        });
        // Another process does the upkeep at this moment: this one has found out nothing.
        if (!report) return;
        const { expired, unparked, cancelled } = report;
        if (expired + unparked + cancelled > 0) events.emit("upkeep.done", { ...report, purged: 0 });
        if (expired < BATCH) return;
      }
    },
  };
}

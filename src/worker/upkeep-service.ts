/** Expires, unparks, forces overdue cancellations and purges; whichever replica comes first does it for all. */
import type { Database } from "../database/database.ts";
import { isAway } from "../database/transient.ts";
import type { Events } from "../events.ts";
import { PassedBy } from "../recovery/passed-by.ts";
import { createService, type Service } from "../service.ts";
import { type Retention, runUpkeep } from "../sql/upkeep.ts";
import { runUpkeepInParts } from "./upkeep-in-parts.ts";

const EVERY_MS = 5_000;
const BATCH = 500;

export function createUpkeep(parts: {
  database: Database;
  events: Events;
  retention: Retention;
  onError: (error: unknown) => void;
}): Service {
  const { database, events, retention, onError } = parts;
  const passedBy = new PassedBy("upkeep", parts);
  return createService({
    intervalMs: EVERY_MS,
    onError,
    async runOnce(signal) {
      while (!signal.aborted) {
        const report = await runUpkeep(database, retention, BATCH).catch(async (error: unknown) => {
          if (isAway(error)) throw error;
          // One row of it, or one part, must not keep the rest from being done.
          const done = await runUpkeepInParts({ database, retention, passedBy, batch: BATCH });
          if (!passedBy.hasMetAny) await passedBy.tell("upkeep in one statement", error);
          return done;
        });
        await passedBy.settle();
        if (!report) return;
        const { expired, unparked, cancelled, purged } = report;
        if (expired + unparked + cancelled + purged > 0) events.emit("upkeep.done", report);
        if (Math.max(expired, purged) < BATCH) return;
      }
    },
  });
}

/**
 * Removes ended tasks that are too old or too many. For how long they stay is a setting of workers, and the strictest wins. So each worker does it by its
 * own setting, whoever has the turns of the cluster, and the database says whether it was done a moment ago (see purge_if_due).
 */
import type { Database } from "../database/database.ts";
import { isAboutSomeRows } from "../database/transient.ts";
import type { Events } from "../events.ts";
import { PassedBy, type PassedByParts } from "../recovery/passed-by.ts";
import { SERVICES } from "../services/list.ts";
import { createService, type Service } from "../services/service.ts";
import { purgeEveryMs, purgeIfDue, type Retention } from "../sql/upkeep.ts";
import { purgeWithoutRefused } from "./refused-purges.ts";

const BATCH = 500;

export function retentionService(parts: {
  database: Database;
  events: Events;
  retention: Retention;
  onError: (error: unknown) => void;
}): Service {
  const { database, events, retention, onError } = parts;
  const passedBy = passedByRetention(parts);
  return createService({
    name: "retention",
    // Twice as often as it is due, so that the moment at which it is due is not missed by nearly all of another interval.
    intervalMs: Math.max(SERVICES.retention.everyMs, purgeEveryMs(retention) / 2),
    onError,
    async runOnce(signal) {
      while (!signal.aborted) {
        const purged = await removeEnded({ database, retention, passedBy, batch: BATCH });
        if (purged > 0) events.emit("upkeep.done", { expired: 0, unparked: 0, cancelled: 0, purged });
        if (purged < BATCH) return;
      }
    },
  });
}

export interface PassedByRetention {
  readonly whole: PassedBy;
  /** Nobody settles this part: what it tells of is in the database (see not_purged). */
  readonly tasks: PassedBy;
}

export function passedByRetention(parts: PassedByParts): PassedByRetention {
  return {
    whole: new PassedBy({ service: "upkeep", part: "purges" }, parts),
    tasks: new PassedBy({ service: "upkeep", part: "purged tasks" }, parts),
  };
}

interface Parts {
  readonly database: Database;
  readonly retention: Retention;
  readonly passedBy: PassedByRetention;
  readonly batch: number;
}

/** One batch. Returns how many left. */
export async function removeEnded(parts: Parts): Promise<number> {
  const { whole } = parts.passedBy;
  const removed = await whole.attempt("removing ended tasks", async () => {
    const count = await removeBatch(parts);
    await whole.settle();
    return count;
  });
  return removed ?? 0;
}

async function removeBatch({ database, retention, passedBy, batch }: Parts): Promise<number> {
  try {
    return await purgeIfDue(database, retention, batch);
  } catch (error) {
    if (!isAboutSomeRows(error)) throw error;
    return purgeWithoutRefused({ database, retention, passedBy: passedBy.tasks }, batch);
  }
}

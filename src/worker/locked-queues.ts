/** Queues that claims pass by because another transaction keeps their rows locked. Where that lasts, there is an alert until it is over. */
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import { raiseAlert, resolveAlerts } from "../sql/alerts.ts";
import type { Outages } from "./outages.ts";

const KIND = "queue-locked";
const LASTS_AFTER_MS = 10_000;
/** A search names one queue. So a queue that is not named for a moment may be locked all the same. */
const OVER_AFTER_MS = 5_000;

export interface LockedQueuesParts {
  readonly database: Database;
  readonly events: Events;
  readonly outages: Outages;
}

interface Locked {
  readonly sinceMs: number;
  readonly seenMs: number;
  readonly isTold: boolean;
}

export class LockedQueues {
  readonly #parts: LockedQueuesParts;
  readonly #locked = new Map<string, Locked>();

  constructor(parts: LockedQueuesParts) {
    this.#parts = parts;
  }

  /** After each search: which queue it has waited for in vain. */
  note(queue: string | undefined, nowMs: number): void {
    for (const [name, { seenMs, isTold }] of this.#locked) {
      if (nowMs - seenMs < OVER_AFTER_MS) continue;
      this.#locked.delete(name);
      if (isTold) this.#write(resolveAlerts(this.#parts.database, KIND, name));
    }
    if (queue === undefined) return;
    const { sinceMs = nowMs, isTold = false } = this.#locked.get(queue) ?? {};
    const lasts = nowMs - sinceMs >= LASTS_AFTER_MS;
    this.#locked.set(queue, { sinceMs, seenMs: nowMs, isTold: isTold || lasts });
    if (lasts && !isTold) this.#write(this.#tell(queue));
  }

  async #tell(queue: string): Promise<void> {
    const { database, events } = this.#parts;
    const message = `Another transaction has kept the row of queue "${queue}", or what counts its rate, locked for ${LASTS_AFTER_MS / 1_000} s or longer. No task of the queue is claimed until it ends. Look for it in pg_stat_activity (idle in transaction) and pg_prepared_xacts.`;
    if (await raiseAlert(database, { kind: KIND, subject: queue, message })) events.emit("queue.locked", { queue });
  }

  #write(writing: Promise<void>): void {
    writing.catch((error: unknown) => this.#parts.outages.noticed(error, "claiming tasks"));
  }
}

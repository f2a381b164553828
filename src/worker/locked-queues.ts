/** Queues that claims pass by because another transaction keeps their rows locked. Where that lasts, there is an alert until it is over. */
import type { Database } from "../database/database.ts";
import type { Events } from "../events.ts";
import { raiseAlert, resolveAlerts } from "../sql/alerts.ts";
import type { Outages } from "./outages.ts";

const KIND = "queue-locked";
const LASTS_AFTER_MS = 10_000;
/** A search names one queue. So a queue that is not named for a moment may be locked all the same. */
const OVER_AFTER_MS = 5_000;
/** Writing an alert may fail, and it leaves the record when it is old. */
const TOLD_EVERY_MS = 60_000;

export interface LockedQueuesParts {
  readonly database: Database;
  readonly events: Events;
  readonly outages: Outages;
}

interface Locked {
  readonly sinceMs: number;
  readonly seenMs: number;
  /** When the alert was raised last. */
  readonly toldMs: number | undefined;
}

export class LockedQueues {
  readonly #parts: LockedQueuesParts;
  readonly #locked = new Map<string, Locked>();
  /** One after the other, so that what was said last is what stays. */
  #writing: Promise<void> = Promise.resolve();

  constructor(parts: LockedQueuesParts) {
    this.#parts = parts;
  }

  /** After each search: which queue it has waited for in vain, and from which it has taken tasks, so that they were free. */
  note(queue: string | undefined, claimed: readonly { readonly queue: string }[], nowMs: number): void {
    if (this.#locked.size > 0) for (const { queue: free } of claimed) this.#end(free);
    for (const [name, { seenMs }] of this.#locked) if (nowMs - seenMs >= OVER_AFTER_MS) this.#end(name);
    if (queue === undefined) return;
    const { sinceMs = nowMs, toldMs } = this.#locked.get(queue) ?? {};
    const isToTell = nowMs - sinceMs >= LASTS_AFTER_MS && nowMs - (toldMs ?? -TOLD_EVERY_MS) >= TOLD_EVERY_MS;
    this.#locked.set(queue, { sinceMs, seenMs: nowMs, toldMs: isToTell ? nowMs : toldMs });
    if (isToTell) this.#tell(queue);
  }

  /** This worker looks no more. Another that still meets the lock tells of it again. */
  stop(): void {
    for (const name of this.#locked.keys()) this.#end(name);
  }

  #end(queue: string): void {
    const toldMs = this.#locked.get(queue)?.toldMs;
    this.#locked.delete(queue);
    if (toldMs !== undefined) this.#write(() => resolveAlerts(this.#parts.database, KIND, queue));
  }

  #tell(queue: string): void {
    const { database, events } = this.#parts;
    const message = `Another transaction has kept the row of queue "${queue}", or what counts its rate, locked for ${LASTS_AFTER_MS / 1_000} s or longer. No task of the queue is claimed until it ends. Look for it in pg_stat_activity (idle in transaction) and pg_prepared_xacts.`;
    this.#write(async () => {
      if (await raiseAlert(database, { kind: KIND, subject: queue, message })) events.emit("queue.locked", { queue });
    });
  }

  #write(act: () => Promise<void>): void {
    this.#writing = this.#writing
      .then(act)
      .catch((error: unknown) => this.#parts.outages.noticed(error, "claiming tasks"));
  }
}

/** Queues that claims pass by because another transaction keeps their rows locked. Where that lasts, there is an alert until it is over. */
import type { Alerts } from "../alerts/alerts.ts";
import type { Events } from "../events.ts";

const KIND = "queue-locked";
const LASTS_AFTER_MS = 10_000;
/** A search names one queue. So a queue that is not named for a moment may be locked all the same. */
const OVER_AFTER_MS = 5_000;

export interface LockedQueuesParts {
  readonly alerts: Alerts;
  readonly events: Events;
}

interface Locked {
  readonly sinceMs: number;
  readonly seenMs: number;
}

export class LockedQueues {
  readonly #parts: LockedQueuesParts;
  readonly #locked = new Map<string, Locked>();

  constructor(parts: LockedQueuesParts) {
    this.#parts = parts;
  }

  /** After each search: which queue it has waited for in vain, and from which it has taken tasks, so that they were free. */
  note(queue: string | undefined, claimed: readonly { readonly queue: string }[], nowMs: number): void {
    if (this.#locked.size > 0) for (const { queue: free } of claimed) this.#end(free);
    for (const [name, { seenMs }] of this.#locked) if (nowMs - seenMs >= OVER_AFTER_MS) this.#end(name);
    if (queue === undefined) return;
    const { sinceMs = nowMs } = this.#locked.get(queue) ?? {};
    this.#locked.set(queue, { sinceMs, seenMs: nowMs });
    if (nowMs - sinceMs >= LASTS_AFTER_MS && !this.#parts.alerts.isOpen(KIND, queue)) void this.#tell(queue);
  }

  /** This worker looks no more. Another that still meets the lock tells of it again. */
  stop(): void {
    for (const name of this.#locked.keys()) this.#end(name);
  }

  #end(queue: string): void {
    const { alerts } = this.#parts;
    if (this.#locked.delete(queue) && alerts.isOpen(KIND, queue)) alerts.resolve(KIND, queue);
  }

  async #tell(queue: string): Promise<void> {
    const { alerts, events } = this.#parts;
    const message = `Another transaction has kept the row of queue "${queue}", or what counts its rate, locked for ${LASTS_AFTER_MS / 1_000} s or longer. No task of the queue is claimed until it ends. Look for it in pg_stat_activity (idle in transaction) and pg_prepared_xacts.`;
    if (await alerts.raise({ kind: KIND, subject: queue, message })) events.emit("queue.locked", { queue });
  }
}

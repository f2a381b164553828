/** What a supervisor has to tell the database: kept while that is away, and told when it is back. */
import { createBackoff, delay } from "../database/backoff.ts";
import { DatabaseUnavailableError } from "../database/errors.ts";
import { isTransient } from "../database/transient.ts";
import type { Events } from "../events.ts";
import { Outages } from "../worker/outages.ts";

/** A reply that does not come is an outage too: packets may be swallowed without anybody being told. */
export const REPLY_WITHIN_MS = 10_000;

export class DurableWords {
  readonly #outages: Outages;
  readonly #stopping = new AbortController();
  readonly #onFailed: (error: unknown, doing: string) => void;
  readonly #open = new Set<Promise<void>>();

  constructor(events: Events, onFailed: (error: unknown, doing: string) => void) {
    this.#outages = new Outages(events);
    this.#onFailed = onFailed;
  }

  /** Resolves when the database has taken it, has refused it for good, or nobody waits any longer. */
  say(doing: string, work: () => Promise<unknown>): Promise<void> {
    const said = this.#trying(doing, work).finally(() => this.#open.delete(said));
    this.#open.add(said);
    return said;
  }

  /** All that is still untold, and what its speakers go on to say. */
  async told(): Promise<void> {
    while (this.#open.size > 0) await Promise.all(this.#open);
  }

  stop(): void {
    this.#stopping.abort();
  }

  async #trying(doing: string, work: () => Promise<unknown>): Promise<void> {
    const backoff = createBackoff({ firstMs: 20, maxMs: 1_000 });
    while (!this.#stopping.signal.aborted) {
      try {
        await answered(work());
        return this.#outages.over(doing);
      } catch (error) {
        if (!isTransient(error)) return this.#onFailed(error, doing);
        this.#outages.noticed(error, doing);
        await backoff.pause(this.#stopping.signal);
      }
    }
  }
}

async function answered(work: Promise<unknown>): Promise<void> {
  const limit = new AbortController();
  const tooLate = delay(REPLY_WITHIN_MS, limit.signal).then(() => {
    if (!limit.signal.aborted) throw new DatabaseUnavailableError([`no reply within ${REPLY_WITHIN_MS} ms`]);
  });
  work.catch(() => {});
  try {
    await Promise.race([work, tooLate]);
  } finally {
    limit.abort();
  }
}

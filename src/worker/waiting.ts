/** Waiting for something, but never for ever. */
import { delay } from "../database/backoff.ts";

/** Resolves when the work is done, or after the time. */
export async function atMost(ms: number, work: Promise<unknown>): Promise<void> {
  const done = new AbortController();
  await Promise.race([work, delay(ms, done.signal)]);
  done.abort();
}

/** Something that changes, and says so to those who wait for it to become what they need. */
export class Changes {
  #waiting: (() => void)[] = [];

  announce(): void {
    if (this.#waiting.length === 0) return;
    for (const notify of this.#waiting.splice(0)) notify();
  }

  /** Resolves when it is true, or after the time. */
  async until(isTrue: () => boolean, ms: number): Promise<void> {
    const until = performance.now() + ms;
    while (!isTrue() && performance.now() < until) {
      const changed = new AbortController();
      this.#waiting.push(() => changed.abort());
      await delay(until - performance.now(), changed.signal);
    }
  }
}

/** How quickly attempts end, of late. */
export class Pace {
  readonly #slots: number;
  #sinceMs: number;
  #ended = 0;
  #tookMs = 0;
  #perMs = 0;

  constructor(slots: number, nowMs: number) {
    this.#slots = slots;
    this.#sinceMs = nowMs;
  }

  count(durationMs: number): void {
    this.#ended++;
    this.#tookMs += durationMs;
  }

  /**
   * How many will end in a millisecond: no more than did, and no more than so many slots can do of tasks that take so long, since those
   * that began together may have ended together.
   */
  perMs(nowMs: number): number {
    const forMs = nowMs - this.#sinceMs;
    if (forMs < SHORTEST_LOOK_MS) return this.#perMs;
    const did = this.#ended / forMs;
    const can = this.#tookMs > 0 ? (this.#slots * this.#ended) / this.#tookMs : did;
    this.#perMs += (Math.min(did, can) - this.#perMs) * Math.min(1, forMs / REMEMBERED_MS);
    this.#beginLook(nowMs);
    return this.#perMs;
  }

  /** It was not what it seemed to be. */
  forget(nowMs: number): void {
    this.#perMs = 0;
    this.#beginLook(nowMs);
  }

  #beginLook(nowMs: number): void {
    this.#sinceMs = nowMs;
    this.#ended = 0;
    this.#tookMs = 0;
  }
}

/** In less, chance decides. */
const SHORTEST_LOOK_MS = 5;
const REMEMBERED_MS = 20;

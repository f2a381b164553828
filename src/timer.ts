/** A timer for any length of time. Node's own cannot wait for more than 24.8 days: told to wait longer, it fires after a millisecond. */
const LONGEST_MS = 2_147_483_647;

export class Timer {
  #timer: NodeJS.Timeout;
  #isHolding = true;

  constructor(ms: number, onOver: () => void) {
    const overAtMs = performance.now() + ms;
    const wait = (leftMs: number): NodeJS.Timeout =>
      leftMs > LONGEST_MS
        ? setTimeout(() => {
            this.#timer = wait(overAtMs - performance.now());
            if (!this.#isHolding) this.#timer.unref();
          }, LONGEST_MS)
        : setTimeout(onOver, leftMs);
    this.#timer = wait(ms);
  }

  /** It is no reason for the process to stay. */
  unref(): this {
    this.#isHolding = false;
    this.#timer.unref();
    return this;
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

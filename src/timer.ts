/** A timer for any length of time. Node's own cannot wait for more than 24.8 days: told to wait longer, it fires after a millisecond. */
const LONGEST_MS = 2_147_483_647;

export class Timer {
  #timer: NodeJS.Timeout;

  constructor(ms: number, onOver: () => void) {
    const overAtMs = performance.now() + ms;
    const wait = (leftMs: number): NodeJS.Timeout =>
      leftMs > LONGEST_MS
        ? setTimeout(() => {
            this.#timer = wait(overAtMs - performance.now());
          }, LONGEST_MS)
        : setTimeout(onOver, leftMs);
    this.#timer = wait(ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

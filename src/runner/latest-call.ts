/** A call of which only the last counts, such as `progress`: sent at most ten times a second, and the last one always. */
const EVERY_MS = 100;

export class LatestCall {
  readonly #send: (args: readonly unknown[]) => void;
  #sentAtMs = Number.NEGATIVE_INFINITY;
  #unsent: readonly unknown[] | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(send: (args: readonly unknown[]) => void) {
    this.#send = send;
  }

  call(args: readonly unknown[]): void {
    this.#unsent = args;
    const waitMs = this.#sentAtMs + EVERY_MS - performance.now();
    if (waitMs <= 0) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), waitMs);
  }

  /** Sent now: what waits from before does not count any more. */
  callNow(args: readonly unknown[]): void {
    this.#unsent = args;
    this.flush();
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#unsent === undefined) return;
    this.#send(this.#unsent);
    this.#unsent = undefined;
    this.#sentAtMs = performance.now();
  }
}

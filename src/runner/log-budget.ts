/** How many log lines a runner may send: a handler that floods its log must not flood its replica. */
const LINES_PER_SECOND = 1_000;

export class LogBudget {
  #left = LINES_PER_SECOND;
  #sinceMs = Number.NEGATIVE_INFINITY;
  #dropped = 0;

  /** Whether one more line may be sent, and how many were dropped before it. */
  take(nowMs: number): { isGranted: boolean; dropped: number } {
    if (nowMs - this.#sinceMs >= 1_000) {
      this.#left = LINES_PER_SECOND;
      this.#sinceMs = nowMs;
    }
    if (this.#left === 0) {
      this.#dropped++;
      return { isGranted: false, dropped: 0 };
    }
    this.#left--;
    return { isGranted: true, dropped: this.takeDropped() };
  }

  /** How many were dropped since that was last told. */
  takeDropped(): number {
    const dropped = this.#dropped;
    this.#dropped = 0;
    return dropped;
  }
}

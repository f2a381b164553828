/** How much a runner may send besides outcomes: a handler that floods its log must not flood its replica, nor fill memory while that reads nothing. */
const LINES_PER_SECOND = 1_000;
/** So many characters may wait for the replica. While a handler holds up its loop nothing is passed on, so a burst of lines needs room, too. */
const MOST_UNREAD = 8_388_608;

export class LogBudget {
  /** How many characters wait for the replica. */
  readonly #unread: () => number;
  #left = LINES_PER_SECOND;
  #sinceMs = Number.NEGATIVE_INFINITY;
  #dropped = 0;

  constructor(unread: () => number) {
    this.#unread = unread;
  }

  /** The replica reads, as far as is known. */
  get hasRoom(): boolean {
    return this.#unread() < MOST_UNREAD;
  }

  /** Whether one more line may be sent, and how many were dropped before it. */
  take(nowMs: number): { isGranted: boolean; dropped: number } {
    if (nowMs - this.#sinceMs >= 1_000) {
      this.#left = LINES_PER_SECOND;
      this.#sinceMs = nowMs;
    }
    if (this.#left === 0 || !this.hasRoom) {
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

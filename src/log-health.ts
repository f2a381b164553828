/** How a log is doing: how many lines of it were dropped, why, and whether lines can be written at present. */
export interface LogHealth {
  /** How many lines were dropped so far. */
  readonly dropped: number;
  /** Why the last one was, in words. */
  readonly reason: string;
  /** The last line was written. */
  readonly isWell: boolean;
}

export class LogRecord implements LogHealth {
  #dropped = 0;
  #reason = "";
  #isWell = true;

  get dropped(): number {
    return this.#dropped;
  }

  get reason(): string {
    return this.#reason;
  }

  get isWell(): boolean {
    return this.#isWell;
  }

  noteWritten(): void {
    this.#isWell = true;
  }

  noteDropped(lines: number, reason: string): void {
    this.#dropped += lines;
    this.#reason = reason;
    this.#isWell = false;
  }
}

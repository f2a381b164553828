/** How a log is doing: how many lines of it were dropped, why, and whether lines can be written at present. */
export interface LogHealth {
  /** How many lines were dropped so far. */
  readonly dropped: number;
  /** Why the last one was, in words. */
  readonly reason: string;
  /** The last line was written, as far as is known here. */
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
    this.noteDroppedElsewhere(lines, reason);
    this.#isWell = false;
  }

  /** By another process or thread, which tells of lines that it has dropped and not of those that it writes again. */
  noteDroppedElsewhere(lines: number, reason: string): void {
    this.#dropped += lines;
    this.#reason = reason;
  }
}

/** What is written to a stream at once. */
export type Chunk = string | Uint8Array;

/** At least one: a text without a line end is a line as well. */
export function linesIn(chunk: Chunk): number {
  if (chunk.length === 0) return 0;
  const text = typeof chunk === "string" ? chunk : Buffer.from(chunk).toString("latin1");
  return Math.max(1, text.split("\n").length - 1);
}

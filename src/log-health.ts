/** How a log is doing: how many lines of it were dropped, why, and whether lines can be written at present. */
export class LogHealth {
  #dropped = 0;
  #reason = "";
  #isWell = true;

  /** How many lines were dropped so far. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Why the last one was, in words. */
  get reason(): string {
    return this.#reason;
  }

  /** The last line was written, as far as is known here. */
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

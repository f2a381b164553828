/** Cuts a stream of text into lines. Each character is looked at once and copied once, however many pieces a line comes in. */
export class LineReader {
  readonly #longest: number;
  #pieces: string[] = [];
  #length = 0;
  #isOverlong = false;

  /** `longest`: what a line may have at the most. Whoever writes more must not fill the memory of the reader. */
  constructor(longest: number) {
    this.#longest = longest;
  }

  /** A line was longer than that. Nothing is read after it: nobody can say where the next line begins. */
  get isOverlong(): boolean {
    return this.#isOverlong;
  }

  /** The lines that are complete with this piece. */
  read(text: string): string[] {
    const lines: string[] = [];
    let from = 0;
    while (!this.#isOverlong) {
      const end = text.indexOf("\n", from);
      this.#keep(end < 0 ? text.slice(from) : text.slice(from, end));
      if (end < 0 || this.#isOverlong) break;
      lines.push(this.#pieces.join(""));
      this.#pieces = [];
      this.#length = 0;
      from = end + 1;
    }
    return lines;
  }

  #keep(piece: string): void {
    this.#length += piece.length;
    this.#isOverlong = this.#length > this.#longest;
    if (this.#isOverlong) this.#pieces = [];
    else this.#pieces.push(piece);
  }
}

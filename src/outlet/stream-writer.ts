/** Writes to Node's stream where there is no descriptor to write to: what the stream keeps is bounded, and its errors end no process. */
import { type Chunk, type LogHealth, linesIn } from "../log-health.ts";
import type { OwnWrite, StandardStream } from "./replaced-write.ts";
import { NOT_READ, reasonOf } from "./write-errors.ts";

/**
 * So many bytes may wait in the stream. It is more than in a descriptor's queue, because the stream of a thread passes nothing on until the
 * thread's loop turns, however fast the reader is.
 */
const MOST_WAITING = 8_388_608;

export class StreamWriter {
  readonly #stream: StandardStream;
  readonly #health: LogHealth;

  constructor(stream: StandardStream, health: LogHealth) {
    this.#stream = stream;
    this.#health = health;
  }

  /** False: the stream asks its writers to wait; it tells them itself when there is room again. */
  write(chunk: Chunk, ownWrite?: OwnWrite): boolean {
    const waiting = this.#stream.writableLength;
    if (waiting > 0 && waiting + chunk.length > MOST_WAITING) {
      this.#health.noteDropped(linesIn(chunk), NOT_READ);
      return false;
    }
    return this.#call(ownWrite, chunk, (error) => this.#onWritten(chunk, error));
  }

  /** Resolves when the stream has passed on what it was given, or has failed. */
  flushed(ownWrite?: OwnWrite): Promise<void> {
    return new Promise((resolve) => this.#call(ownWrite, "", () => resolve()));
  }

  #call(ownWrite: OwnWrite | undefined, chunk: Chunk, onWritten: (error?: Error | null) => void): boolean {
    return ownWrite ? ownWrite(chunk, onWritten) : this.#stream.write(chunk, onWritten);
  }

  #onWritten(chunk: Chunk, error: NodeJS.ErrnoException | null | undefined): void {
    if (!error) {
      this.#health.noteWritten();
      return;
    }
    this.#health.noteDropped(linesIn(chunk), reasonOf(error.code));
    // An event follows, which would end a process in which nobody listens.
    if (this.#stream.listenerCount("error") === 0) this.#stream.once("error", () => {});
  }
}

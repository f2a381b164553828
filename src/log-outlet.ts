/**
 * Writes log lines to a standard stream of this process. Whatever happens to that stream, the work goes on: a write never throws and never
 * waits, what cannot be written is dropped and counted, and what waits for a slow reader is bounded.
 *
 * Lines go to the descriptor itself, not through Node's stream. A stream keeps its process alive for as long as its reader stands still, and
 * tells of an error by an event that ends a process in which nobody listens.
 */
import { writeSync } from "node:fs";
import { LogRecord } from "./log-health.ts";

/** So many bytes may wait for the reader of a pipe or a terminal. */
const MOST_WAITING = 1_048_576;
/**
 * So many may wait in a stream that has no descriptor. It is more, because the stream of a thread passes nothing on until the thread's loop
 * turns, however fast the reader is.
 */
const MOST_IN_STREAM = 8_388_608;
/** From so many on, writers that heed it are asked to wait. */
const MUCH_WAITING = 16_384;
/** How soon it is tried again: soon after the reader has taken something, later and later while it has not. */
const SOONEST_MS = 1;
const LATEST_MS = 20;
const NOT_READ = "its reader does not read";
/** A reader that has taken nothing for so long stands still: nobody waits for it any longer. */
const STANDS_STILL_AFTER_MS = 1_000;

type StandardStream = NodeJS.WriteStream & {
  readonly fd: number;
  /** Not there for files. */
  readonly _handle?: { setBlocking?(isBlocking: boolean): void };
};
type Chunk = string | Uint8Array;
type Done = (error?: Error | null) => void;

const outlets = new WeakMap<StandardStream, LogOutlet>();

/** One for each stream, since a stream is the same for the whole process. */
export function outletOf(stream: StandardStream): LogOutlet {
  const outlet = outlets.get(stream) ?? new LogOutlet(stream);
  outlets.set(stream, outlet);
  return outlet;
}

export class LogOutlet {
  readonly health = new LogRecord();
  readonly #stream: StandardStream;
  readonly #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #looking: NodeJS.Timeout | undefined;
  #pauseMs = SOONEST_MS;
  #takenAtMs = 0;
  #standsStill = false;
  /** The last line was cut off in the middle. */
  #isCut = false;
  #isOwner = false;
  /** The stream's own method, where ours has taken its place. */
  #writeOfStream: StandardStream["write"] | undefined;
  /** A writer was asked to wait until there is room. */
  #isAwaited = false;
  #onFlushed: (() => void)[] = [];

  constructor(stream: StandardStream) {
    this.#stream = stream;
  }

  /** False: much of what was written before still waits for the reader. */
  write(chunk: Chunk): boolean {
    if (!this.#hasDescriptor) return this.#writeToStream(chunk);
    const length = Buffer.byteLength(chunk);
    // Also where the reader is only slower than a loop that does not let timers come.
    if (this.#waitingBytes + length > MOST_WAITING) this.#send();
    if (this.#waitingBytes > 0 && this.#waitingBytes + length > MOST_WAITING) this.#drop(chunk, NOT_READ);
    else {
      this.#wait(Buffer.from(chunk as string));
      if (!this.#looking) this.#send();
    }
    const hasRoom = this.#standsStill || this.#waitingBytes < MUCH_WAITING;
    this.#isAwaited ||= !hasRoom;
    return hasRoom;
  }

  /**
   * For a process of our own: from now on everything that is written to the stream, by `console.log` for one, goes this way. A
   * terminal that is held (Ctrl-S) does not block the process any longer. Somebody who has replaced the stream's `write` keeps it.
   */
  takeOver(): void {
    if (this.#isOwner || Object.hasOwn(this.#stream, "write")) return;
    this.#isOwner = true;
    const stream = this.#stream;
    this.#writeOfStream = stream.write.bind(stream);
    // What was written before may still fail.
    stream.on("error", () => {});
    stream.write = (chunk: Chunk, encoding?: BufferEncoding | Done, done?: Done) => {
      const hasRoom = this.write(typeof encoding === "string" ? Buffer.from(chunk as string, encoding) : chunk);
      const callback = typeof encoding === "function" ? encoding : done;
      // Without an error: that a line could not be printed is no reason for its writer to fail.
      if (callback) process.nextTick(callback);
      return hasRoom;
    };
  }

  /** Resolves when everything is written, or its reader stands still. */
  flushed(): Promise<void> {
    if (!this.#isOwner) return new Promise((resolve) => this.#stream.write("", () => resolve()));
    if (this.#waiting.length === 0 || this.#standsStill) return Promise.resolve();
    return new Promise((resolve) => this.#onFlushed.push(resolve));
  }

  /**
   * A thread has no descriptor of its own. Where somebody has replaced the stream's `write`, that is where they want to have the lines. What
   * waits in the stream itself comes first.
   */
  get #hasDescriptor(): boolean {
    const { fd, writableLength } = this.#stream;
    if (typeof fd !== "number") return false;
    return this.#isOwner || (writableLength === 0 && !Object.hasOwn(this.#stream, "write"));
  }

  #wait(bytes: Buffer): void {
    const whole = this.#isCut && this.#waiting.length === 0 ? Buffer.concat([Buffer.from("\n"), bytes]) : bytes;
    this.#waiting.push(whole);
    this.#waitingBytes += whole.length;
  }

  /** As much as the stream takes now. */
  #send(): void {
    try {
      // Each time: whoever starts a process that inherits a pipe makes it block again, and so does Node with a terminal.
      if (this.#isOwner || !this.#stream.isTTY) this.#stream._handle?.setBlocking?.(false);
      for (let next = this.#waiting[0]; next; next = this.#waiting[0]) this.#onTaken(writeSync(this.#stream.fd, next));
      this.#onEmpty();
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EAGAIN") this.#lookAgain();
      else this.#giveUp(reasonOf(code));
    }
  }

  #onTaken(bytes: number): void {
    const [next] = this.#waiting;
    if (!next) return;
    this.#takenAtMs = performance.now();
    this.#pauseMs = SOONEST_MS;
    this.#standsStill = false;
    this.#waitingBytes -= bytes;
    this.#isCut = bytes < next.length;
    if (this.#isCut) this.#waiting[0] = next.subarray(bytes);
    else {
      this.#waiting.shift();
      this.health.noteWritten();
    }
  }

  #lookAgain(): void {
    const nowMs = performance.now();
    if (!this.#looking) this.#takenAtMs = nowMs;
    this.#standsStill = nowMs - this.#takenAtMs >= STANDS_STILL_AFTER_MS;
    clearTimeout(this.#looking);
    this.#looking = setTimeout(() => this.#send(), this.#pauseMs);
    this.#pauseMs = Math.min(LATEST_MS, this.#pauseMs * 2);
    if (!this.#standsStill) return;
    this.#looking.unref();
    this.#tellWaiters();
  }

  #giveUp(reason: string): void {
    this.#pauseMs = SOONEST_MS;
    for (const bytes of this.#waiting.splice(0)) this.#drop(bytes, reason);
    this.#waitingBytes = 0;
    this.#onEmpty();
  }

  #onEmpty(): void {
    clearTimeout(this.#looking);
    this.#looking = undefined;
    this.#standsStill = false;
    this.#tellWaiters();
  }

  #tellWaiters(): void {
    for (const resolve of this.#onFlushed.splice(0)) resolve();
    if (this.#isAwaited && this.#isOwner) this.#stream.emit("drain");
    this.#isAwaited = false;
  }

  /** The stream itself asks its writers to wait, and tells them when there is room again. */
  #writeToStream(chunk: Chunk): boolean {
    const waiting = this.#stream.writableLength;
    if (waiting > 0 && waiting + chunk.length > MOST_IN_STREAM) {
      this.#drop(chunk, NOT_READ);
      return false;
    }
    const onWritten = (error?: Error | null) => this.#onStreamWrote(chunk, error);
    return this.#writeOfStream ? this.#writeOfStream(chunk, onWritten) : this.#stream.write(chunk, onWritten);
  }

  #onStreamWrote(chunk: Chunk, error: NodeJS.ErrnoException | null | undefined): void {
    if (!error) {
      this.health.noteWritten();
      return;
    }
    this.#drop(chunk, reasonOf(error.code));
    // An event follows, which would end a process in which nobody listens.
    if (this.#stream.listenerCount("error") === 0) this.#stream.once("error", () => {});
  }

  #drop(chunk: Chunk, reason: string): void {
    this.health.noteDropped(linesIn(chunk), reason);
  }
}

/** What is wrong with a stream, by the code of the error. */
export function reasonOf(code: string | undefined): string {
  const words = REASONS[code ?? ""] ?? "it cannot be written";
  return code === undefined ? words : `${words} (${code})`;
}

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: "no space left on the device",
  EDQUOT: "the quota of the disk is used up",
  EFBIG: "the file may not become larger",
  EPIPE: "nobody reads it any more",
  ECONNRESET: "nobody reads it any more",
  EIO: "the terminal is closed, or the disk fails",
  EBADF: "it is closed",
};

/** At least one: a text without a line end is a line as well. */
function linesIn(chunk: Chunk): number {
  const text = typeof chunk === "string" ? chunk : Buffer.from(chunk).toString("latin1");
  return Math.max(1, text.split("\n").length - 1);
}

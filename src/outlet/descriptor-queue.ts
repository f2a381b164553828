/**
 * What waits to be written to a descriptor. It writes by itself instead of through Node's stream: a stream keeps its process alive for as long
 * as its reader stands still, keeps all that the reader does not take, and tells of an error by an event that ends a process in which nobody listens.
 *
 *                put               the reader takes no more              nothing taken for a second
 *   empty ──▶ (written at once) ─────────────────────────▶ waiting ───────────────────────────▶ standing still
 *     ▲               │                                      │  ▲                                     │
 *     └── all taken ──┴───────────── all taken ──────────────┘  └───────── something taken ───────────┘
 *
 * In each state, an error other than "not now" drops what waits, and the queue is empty.
 */
import { writeSync } from "node:fs";
import { type LogHealth, linesIn } from "../log-health.ts";
import { NOT_READ, reasonOf } from "./write-errors.ts";

/** So many bytes may wait for the reader of a pipe or a terminal. */
const MOST_WAITING = 1_048_576;
/** Each piece that waits takes memory besides its bytes: so many are joined into one. */
const MOST_PIECES = 1_024;
/** From so many on, writers that heed it are asked to wait. */
const MUCH_WAITING = 16_384;
/** How soon it is tried again: soon after the reader has taken something, later and later while it has not. */
const SOONEST_MS = 1;
const LATEST_MS = 20;
/** A reader that has taken nothing for so long stands still: nobody waits for it any longer. */
const STANDS_STILL_AFTER_MS = 1_000;
const NEWLINE = 10;

export interface DescriptorQueueParts {
  readonly fd: number;
  readonly health: LogHealth;
  /** Sees to it that a write does not wait for the reader. */
  readonly doNotBlock: () => void;
  /** Called when a writer that was asked to wait need not do so any longer. */
  readonly onRoom: () => void;
}

export class DescriptorQueue {
  readonly #parts: DescriptorQueueParts;
  #state: "empty" | "waiting" | "standing still" = "empty";
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #pauseMs = SOONEST_MS;
  /** When the reader took something, or was first asked to. */
  #takenAtMs = 0;
  /** The end of the line that was written last: it was written too, it waits, or it was dropped and the next line needs a line end before it. */
  #lineEnd: "written" | "waiting" | "dropped" = "written";
  #onFlushed: (() => void)[] = [];

  constructor(parts: DescriptorQueueParts) {
    this.#parts = parts;
  }

  /** False: so much waits that a writer who can wait should do so. For a reader that stands still nobody is asked to wait. */
  put(bytes: Buffer): boolean {
    // The reader may have made room without our knowing: while a loop prints without a pause, no timer fires.
    if (this.#isTooMuch(bytes)) this.#writeNow();
    if (this.#isTooMuch(bytes)) this.#parts.health.noteDropped(linesIn(bytes), NOT_READ);
    else {
      this.#waiting.push(bytes);
      if (this.#waiting.length > MOST_PIECES) this.#waiting = [Buffer.concat(this.#waiting)];
      this.#waitingBytes += bytes.length;
      if (this.#state === "empty") this.#writeNow();
    }
    return this.#state !== "waiting" || this.#waitingBytes < MUCH_WAITING;
  }

  /** Resolves when everything is written or dropped, or the reader stands still. */
  flushed(): Promise<void> {
    if (this.#state !== "waiting") return Promise.resolve();
    return new Promise((resolve) => this.#onFlushed.push(resolve));
  }

  /** Nobody will write what waits any more. */
  giveUp(): void {
    this.#drop(Buffer.concat(this.#waiting), NOT_READ);
  }

  /** One chunk alone may be as long as it likes. */
  #isTooMuch(bytes: Buffer): boolean {
    return this.#waitingBytes > 0 && this.#waitingBytes + bytes.length > MOST_WAITING;
  }

  /** Writes as much as the descriptor takes. */
  #writeNow(): void {
    const { fd, doNotBlock } = this.#parts;
    let rest = this.#waiting.length === 1 ? (this.#waiting[0] as Buffer) : Buffer.concat(this.#waiting);
    try {
      // Before every write: a process that is started with this pipe as its own lets it block again, and Node lets a terminal block.
      doNotBlock();
      if (this.#lineEnd === "dropped") {
        writeSync(fd, "\n");
        this.#lineEnd = "written";
      }
      while (rest.length > 0) rest = this.#afterTaking(writeSync(fd, rest), rest);
      this.#becomeEmpty();
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EAGAIN") this.#waitForReader(rest);
      else this.#drop(rest, reasonOf(code));
    }
  }

  #afterTaking(taken: number, bytes: Buffer): Buffer {
    this.#takenAtMs = performance.now();
    this.#pauseMs = SOONEST_MS;
    this.#lineEnd = taken === bytes.length || bytes[taken - 1] === NEWLINE ? "written" : "waiting";
    this.#parts.health.noteWritten();
    return bytes.subarray(taken);
  }

  #waitForReader(rest: Buffer): void {
    const nowMs = performance.now();
    this.#waiting = [rest];
    this.#waitingBytes = rest.length;
    if (this.#state === "empty") this.#takenAtMs = nowMs;
    this.#state = nowMs - this.#takenAtMs >= STANDS_STILL_AFTER_MS ? "standing still" : "waiting";
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#writeNow(), this.#pauseMs);
    this.#pauseMs = Math.min(LATEST_MS, this.#pauseMs * 2);
    if (this.#state !== "standing still") return;
    this.#timer.unref();
    this.#tellWaiters();
  }

  #drop(rest: Buffer, reason: string): void {
    if (rest.length > 0) this.#parts.health.noteDropped(linesIn(rest), reason);
    if (this.#lineEnd === "waiting") this.#lineEnd = "dropped";
    this.#becomeEmpty();
  }

  #becomeEmpty(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#pauseMs = SOONEST_MS;
    this.#state = "empty";
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#tellWaiters();
  }

  #tellWaiters(): void {
    for (const resolve of this.#onFlushed.splice(0)) resolve();
    this.#parts.onRoom();
  }
}

/**
 * Writes log lines to a standard stream of this process. Whatever happens to that stream, the work goes on: a write never throws and never
 * waits, what cannot be written is dropped and counted, and what waits for a slow reader is bounded.
 *
 *                     ┌─▶ descriptor queue ──▶ descriptor    in most processes
 *   write ──▶ outlet ─┤
 *                     └─▶ stream writer ──▶ Node's stream    in a thread, which has no descriptor, and where somebody has replaced `write`
 */
import { type Chunk, LogHealth } from "../log-health.ts";
import { DescriptorQueue } from "./descriptor-queue.ts";
import { openOwnDescription } from "./own-description.ts";
import { type OwnWrite, replaceWrite, type StandardStream } from "./replaced-write.ts";
import { StreamWriter } from "./stream-writer.ts";

export class LogOutlet {
  readonly health = new LogHealth();
  readonly #stream: StandardStream;
  readonly #ownDescription: number | undefined;
  readonly #queue: DescriptorQueue;
  readonly #streamWriter: StreamWriter;
  /** The stream's own method, once ours has taken its place. */
  #ownWrite: OwnWrite | undefined;
  /** A writer was asked to wait until there is room. */
  #isAwaited = false;

  /** `ownDescription`: of a pipe that nobody shares and whose writes do not wait. */
  constructor(stream: StandardStream, ownDescription?: number) {
    this.#stream = stream;
    this.#ownDescription =
      ownDescription ?? (typeof stream.fd === "number" ? openOwnDescription(stream.fd) : undefined);
    this.#queue = new DescriptorQueue({
      fd: this.#ownDescription ?? stream.fd,
      health: this.health,
      doNotBlock: () => this.#doNotBlock(),
      onRoom: () => this.#onRoom(),
    });
    this.#streamWriter = new StreamWriter(stream, this.health);
  }

  /** False: much of what was written before still waits for the reader. */
  write(chunk: Chunk): boolean {
    if (!this.#usesDescriptor) return this.#streamWriter.write(chunk, this.#ownWrite);
    const hasRoom = this.#queue.put(Buffer.from(chunk as string));
    this.#isAwaited ||= !hasRoom;
    return hasRoom;
  }

  /**
   * For a process of our own: from now on everything that is written to the stream, by `console.log` for one, goes this way. A
   * terminal that is held (Ctrl-S) does not block the process any longer. Somebody who has replaced the stream's `write` keeps it.
   */
  takeOver(): void {
    if (this.#ownWrite) return;
    this.#ownWrite = replaceWrite(this.#stream, (chunk) => this.write(chunk));
  }

  /**
   * Resolves when everything is written or dropped. After `takeOver`, it does not wait for a reader that stands still. Without it, other code of the
   * program may have written to Node's stream, and this waits until that stream is empty, for as long as that takes, as any program does.
   */
  flushed(): Promise<void> {
    if (this.#ownWrite && this.#usesDescriptor) return this.#queue.flushed();
    return this.#streamWriter.flushed(this.#ownWrite);
  }

  /** A runner ends: what still waits for the descriptor is counted as dropped, so that its replica can be told. */
  giveUp(): void {
    this.#queue.giveUp();
  }

  /**
   * A thread has no descriptor of its own. Where somebody has replaced the stream's `write`, that is where they want to have the lines. What
   * waits in the stream itself comes first.
   */
  get #usesDescriptor(): boolean {
    const { fd, writableLength } = this.#stream;
    if (typeof fd !== "number") return false;
    return this.#ownWrite !== undefined || (writableLength === 0 && !Object.hasOwn(this.#stream, "write"));
  }

  /** Without a description of our own, a terminal stays as Node has set it in a program of somebody else. */
  #doNotBlock(): void {
    if (this.#ownDescription !== undefined) return;
    if (this.#ownWrite || !this.#stream.isTTY) this.#stream._handle?.setBlocking?.(false);
  }

  #onRoom(): void {
    // Later, as Node does it: what the writers go on to write must not meet a queue that is in the middle of something.
    if (this.#isAwaited && this.#ownWrite) process.nextTick(() => this.#stream.emit("drain"));
    this.#isAwaited = false;
  }
}

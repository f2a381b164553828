/**
 * How many handlers of a replica are at work, in shared memory: written by the main thread the moment that it changes, read by its heart,
 * which must know it also while the main thread is blocked. Of the process, whatever the replica's id.
 */
export class BegunCount {
  readonly buffer: SharedArrayBuffer;
  readonly #count: Int32Array;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)) {
    this.buffer = buffer;
    this.#count = new Int32Array(buffer);
  }

  get value(): number {
    return this.#count[0] ?? 0;
  }

  set value(count: number) {
    this.#count[0] = count;
  }
}

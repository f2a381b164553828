/**
 * What the main thread and its heart tell each other without waiting for each other: a few numbers in shared memory. The
 * main thread writes how it is doing, as long as its loop turns; the heart reads it whether it turns or not.
 */
const FIELDS = [
  "tickedAtMs",
  "delayP50Ms",
  "delayP99Ms",
  "delayMaxMs",
  "heapUsed",
  "inHand",
  "hasStopped",
  /** When another session was last known to stand in for the heart's own; 0 where none has. */
  "standInSeenAtMs",
  /** Written by the heart: how many beats it has sent. */
  "beats",
  /** Of a runner's thread, written by its replica: how much it has read of what the thread has said. */
  "readCharacters",
] as const;

export type SharedField = (typeof FIELDS)[number];

export class SharedState {
  readonly buffer: SharedArrayBuffer;
  readonly #numbers: Float64Array;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(FIELDS.length * Float64Array.BYTES_PER_ELEMENT)) {
    this.buffer = buffer;
    this.#numbers = new Float64Array(buffer);
  }

  get(field: SharedField): number {
    return this.#numbers[FIELDS.indexOf(field)] ?? 0;
  }

  set(field: SharedField, value: number): void {
    this.#numbers[FIELDS.indexOf(field)] = value;
  }
}

/**
 * Counts how many bytes a value takes at least as JSON, before there is any text of it. A text that does not fit into the heap would abort
 * the whole process, also where a thread makes it. The length of a string is known without a look at its characters.
 */
import { types } from "node:util";

/** Thrown as soon as the count is above the limit, so that the rest of the value is not looked at. */
export class TooLarge extends Error {
  readonly leastBytes: number;

  constructor(leastBytes: number) {
    super(`It has at least ${leastBytes} bytes as JSON.`);
    this.leastBytes = leastBytes;
  }
}

/** Quotes and a colon. */
const AROUND_A_KEY = 3;
/** A digit and a comma. */
const LEAST_OF_AN_ELEMENT = 2;

/** One count. A text can have more bytes than were counted (escapes, long numbers), about twelve times as many at most. */
export class Measure {
  readonly #limitBytes: number;
  #bytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** Of a list or an object this counts the brackets: what is in it is counted by itself. */
  add(value: unknown): void {
    if (typeof value === "string" || types.isStringObject(value)) this.#take(value.length + 2);
    else if (typeof value !== "object" || value === null) this.#take(1);
    else this.#take(ArrayBuffer.isView(value) ? LEAST_OF_AN_ELEMENT * elementsOf(value) : 2);
  }

  addKey(key: string): void {
    this.#take(key.length + AROUND_A_KEY);
  }

  #take(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > this.#limitBytes) throw new TooLarge(this.#bytes);
  }
}

/** As `JSON.stringify`, which asks each `toJSON()`: what that says is measured before it is written. */
export function stringifyWithin(value: unknown, limitBytes: number): string | undefined {
  const measure = new Measure(limitBytes);
  refuseLongBuffer(value, limitBytes);
  return JSON.stringify(value, function (this: unknown, key: string, said: unknown) {
    if (said === undefined || typeof said === "function" || typeof said === "symbol") {
      // A list has a null in its place.
      if (Array.isArray(this)) measure.add(null);
      return said;
    }
    if (key !== "" && !Array.isArray(this)) measure.addKey(key);
    measure.add(said);
    for (const entry of entriesOf(said, limitBytes)) refuseLongBuffer(entry, limitBytes);
    return said;
  });
}

/** Before it is asked: its `toJSON()` makes a list of its bytes, which takes many times its memory. */
function refuseLongBuffer(value: unknown, limitBytes: number): void {
  if (!Buffer.isBuffer(value) || value.toJSON !== Buffer.prototype.toJSON) return;
  const leastBytes = LEAST_OF_AN_ELEMENT * value.length;
  if (leastBytes > limitBytes) throw new TooLarge(leastBytes);
}

/** A list may be very long and have nothing in it: each of its places takes a byte at least. */
function entriesOf(value: unknown, limitBytes: number): readonly unknown[] {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return [];
  if (!Array.isArray(value)) return Object.values(value);
  if (value.length > limitBytes) throw new TooLarge(value.length);
  return value;
}

/** A `DataView` has none. */
function elementsOf(view: ArrayBufferView): number {
  return (view as { length?: number }).length ?? 0;
}

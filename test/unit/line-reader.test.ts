/** Lines out of a stream that comes in pieces: all of them, at a cost that grows with their length and no faster, and never without a bound. */
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LineReader } from "../../src/runner/line-reader.ts";
import { encodeSealed, longestMessage } from "../../src/runner/protocol.ts";

const read = (reader: LineReader, pieces: readonly string[]) => pieces.flatMap((piece) => reader.read(piece));
const streams = fc.array(fc.string({ unit: fc.constantFrom("\n", "a", "€", "\r") }), { maxLength: 30 });

test("whatever the pieces are, the lines are those of the whole", () => {
  fc.assert(
    fc.property(streams, (pieces) => {
      const lines = pieces.join("").split("\n");
      expect(read(new LineReader(1_000), pieces)).toEqual(lines.slice(0, -1));
    }),
  );
});

describe("a long line in small pieces", () => {
  /** How many characters are searched, cut and joined: the language's own operations are counted while the line is read. */
  function touchedBy(length: number): number {
    let touched = 0;
    const counted = <This extends { length: number }>(of: object, name: string) => {
      const native = Reflect.get(of, name) as (...args: unknown[]) => unknown;
      Reflect.set(of, name, function (this: This, ...args: unknown[]) {
        const done = native.apply(this, args);
        touched += typeof done === "string" ? done.length : this.length;
        return done;
      });
      return () => Reflect.set(of, name, native);
    };
    const reader = new LineReader(2 * length);
    const operations = [
      counted(String.prototype, "indexOf"),
      counted(String.prototype, "split"),
      counted(Array.prototype, "join"),
    ];
    for (let at = 0; at < length; at += 100) reader.read("x".repeat(100));
    reader.read("\n");
    for (const restore of operations) restore();
    return touched;
  }

  test("is searched and joined once: twice the length is twice the work", () => {
    expect(touchedBy(100_000)).toBeLessThan(3 * 100_000);
    expect(touchedBy(200_000) / touchedBy(100_000)).toBeLessThan(2.1);
  });
});

describe("a line that is too long", () => {
  test("ends the reading, and what came before it is read", () => {
    const reader = new LineReader(10);
    expect(reader.read(`one\n${"x".repeat(10)}\ntwo\n${"x".repeat(11)}`)).toEqual(["one", "x".repeat(10), "two"]);
    expect(reader.isOverlong).toBe(true);
    expect(reader.read("\nthree\n")).toEqual([]);
  });

  test("is one in however many pieces it comes, also with its end", () => {
    const pieces = ["xxxx", "xxxx", "xxxx\n", "four\n"];
    const reader = new LineReader(10);
    expect(read(reader, pieces)).toEqual([]);
    expect(reader.isOverlong).toBe(true);
  });
});

test("the largest result fits into a message, whatever it consists of", () => {
  for (const character of ['"', "\\", "\u0001", "€"]) {
    const resultJson = JSON.stringify(character.repeat(1_000_000));
    const message = encodeSealed(randomUUID(), {
      type: "outcome",
      job: 1,
      item: 1,
      outcome: { kind: "returned", resultJson },
    });
    expect(message.length).toBeLessThan(longestMessage(Buffer.byteLength(resultJson)));
  }
});

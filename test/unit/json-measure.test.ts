/** A value is measured before it is made into text: what is too large costs no memory and little time. */
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { toErrorRecord } from "../../src/task/error-record.ts";
import { toJson } from "../../src/task/json.ts";
import { stringifyWithin, TooLarge } from "../../src/task/json-measure.ts";

const LIMIT = 1_024;

/** 2 to the power of 60 letters, all of them in one list of two. */
function doubledLists(): unknown {
  let list: unknown = ["x", new Date(0)];
  for (let level = 0; level < 60; level++) list = [list, list];
  return list;
}

function longText(): string {
  let text = "x";
  for (let doubled = 0; doubled < 28; doubled++) text += text;
  return text;
}

describe("too large, and never made into text:", () => {
  test.each([
    ["a text", () => longText()],
    ["a text that is an object", () => new String(longText())],
    ["a text within objects", () => ({ a: [{ text: longText() }] })],
    ["a long list", () => new Array(1_000_000).fill(1)],
    ["one list many times", doubledLists],
    ["a long key", () => ({ ["k".repeat(2 * LIMIT)]: 1 })],
    ["a long key of an object with a date", () => ({ ["k".repeat(2 * LIMIT)]: { at: new Date(0) } })],
    ["a buffer", () => ({ bytes: Buffer.alloc(1_000_000) })],
    ["a list of numbers in binary", () => new Float64Array(1_000_000)],
  ])("%s", (_what, value) => {
    const stringify = vi.spyOn(JSON, "stringify");
    try {
      expect(toJson(value(), LIMIT)).toEqual({
        ok: false,
        problem: expect.stringMatching(/^it has at least \d+ bytes as JSON and at most 1024 are allowed; store it/),
      });
      expect(stringify).not.toHaveBeenCalled();
    } finally {
      stringify.mockRestore();
    }
  });

  test("what a toJSON() says", () => {
    expect(toJson({ inner: { toJSON: () => doubledLists() } }, LIMIT)).toMatchObject({
      problem: expect.stringContaining("at least"),
    });
    expect(() => stringifyWithin({ a: { toJSON: longText } }, LIMIT)).toThrow(TooLarge);
    expect(() => stringifyWithin({ a: new String(longText()) }, LIMIT)).toThrow(TooLarge);
    expect(() => stringifyWithin(new Array(LIMIT), LIMIT)).toThrow(TooLarge);
  });
});

test.each([
  ["itself", (buffer: Buffer) => buffer],
  ["in an object", (buffer: Buffer) => ({ a: { buffer } })],
  ["in a list", (buffer: Buffer) => [1, [buffer]]],
  ["in what a toJSON() says", (buffer: Buffer) => ({ toJSON: () => ({ buffer }) })],
])("a long buffer is not made into a list of its bytes: %s", (_where, put) => {
  const toJSON = vi.spyOn(Buffer.prototype, "toJSON");
  try {
    expect(() => stringifyWithin(put(Buffer.alloc(1_000_000)), LIMIT)).toThrow(TooLarge);
    expect(toErrorRecord(put(Buffer.alloc(1_000_000)))).toMatchObject({
      message: expect.stringContaining("cannot be shown"),
    });
    expect(toJSON).not.toHaveBeenCalled();
    expect(stringifyWithin(put(Buffer.alloc(3)), LIMIT)).toContain("[0,0,0]");
  } finally {
    toJSON.mockRestore();
  }
});

test("a list of holes is not walked through to its end", () => {
  const holes: unknown[] = [];
  holes.length = 4_000_000_000;
  expect(() => stringifyWithin(holes, LIMIT)).toThrow(TooLarge);
});

test("the limit is exact: what fits is taken, and one byte less is too little", () => {
  const odd = fc.oneof(fc.jsonValue(), fc.date({ noInvalidDate: true }), fc.constant({ toJSON: () => 1 }));
  const value = fc.oneof(odd, fc.dictionary(fc.string(), fc.option(odd, { nil: undefined })), fc.array(odd));
  fc.assert(
    fc.property(value, (given) => {
      const bytes = Buffer.byteLength(JSON.stringify(given));
      expect(toJson(given, bytes)).toMatchObject({ ok: true });
      expect(toJson(given, bytes - 1)).toMatchObject({ ok: false });
    }),
  );
});

test("a buffer that says itself what it is counts as what it says", () => {
  const short = Object.assign(Buffer.alloc(10_000), { toJSON: () => "short" });
  expect(toJson({ short }, LIMIT)).toMatchObject({ ok: true, text: '{"short":"short"}' });
});

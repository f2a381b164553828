/** Text of users on a terminal, by property: whatever it holds, the terminal is told nothing by it. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { coloursFor, rendered } from "../../src/cli/colours.ts";
import { linesOf, printable } from "../../src/cli/printable.ts";
import { quoted, table } from "../../src/cli/table.ts";
import { widthOf } from "../../src/cli/text-width.ts";

/** Any text, with many of the characters that matter here. */
const odd = fc.constantFrom(
  ..."\x00\x07\b\t\n\r\x1b\x7f\x80\x9b\x9f\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ud800\udfff[31m\\",
);
const text = fc
  .array(fc.oneof(odd, fc.string({ unit: "binary" }), fc.constantFrom("\x1b[31m", "\x1b[39m", "é", "\u{1f600}", "a")))
  .map((parts) => parts.join(""));

function isReadable(shown: string): void {
  expect(shown).not.toMatch(/[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u);
}

describe("a printable text", () => {
  test("has no character that a terminal obeys", () => {
    fc.assert(fc.property(text, (given) => isReadable(printable(given))));
  });

  test("is left alone by a second look, and by the first where it had no such character", () => {
    fc.assert(
      fc.property(text, (given) => {
        expect(printable(printable(given))).toBe(printable(given));
      }),
    );
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (given) => {
        const plain = given.replace(/[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu, "");
        expect(printable(plain)).toBe(plain);
      }),
    );
  });

  test("is the same JSON as before", () => {
    fc.assert(
      fc.property(fc.oneof(text, fc.dictionary(text, text)), (value) => {
        expect(JSON.parse(printable(JSON.stringify(value)))).toEqual(value);
      }),
    );
  });

  test.each([
    ["\x1b[2J", "\\x1b[2J"],
    ["\x1b]0;x\x07", "\\x1b]0;x\\x07"],
    ["\x7f\x9b1m", "\\u007f\\u009b1m"],
    ["a\u202eb\u2066", "a\\u202eb\\u2066"],
    ["a\r\n\tb", "a\\r\\n\\tb"],
    ["\ud83d", "\\ud83d"],
    ["\u{1f600} é ✓", "\u{1f600} é ✓"],
  ])("shows %j as %s", (given, shown) => expect(printable(given)).toBe(shown));
});

describe("a line as it is written", () => {
  const colours = coloursFor({ isTTY: true }, { TERM: "xterm" });
  /** Not `\x1b[31m` and the like of a user's, so all that is left of escapes are those of ours. */
  const withoutOwn = (line: string) => line.replace(/\x1b\[(?:1|2|22|31|36|39)m/g, "");

  test("has the colours that were given to it, and no others", () => {
    fc.assert(
      fc.property(text, text, text, (a, b, c) => {
        const line = rendered(`${a}${colours.red(b)}${colours.bold(colours.cyan(c))}`);
        isReadable(withoutOwn(line));
        expect(line.match(/\x1b\[(?:31|36|1)m/g)).toEqual(["\x1b[31m", "\x1b[1m", "\x1b[36m"]);
        expect(withoutOwn(line)).toBe(printable(`${a}${b}${c}`));
      }),
    );
  });

  test("keeps the outer colour after an inner one has ended", () => {
    expect(rendered(colours.red(`a${colours.cyan("b")}c`))).toBe("\x1b[31ma\x1b[36mb\x1b[31mc\x1b[39m");
  });
});

test("a text of several lines has a bar before each of them, and a table keeps one row on one line", () => {
  const look = { colours: coloursFor({ isTTY: false }, {}), width: 100_000 };
  fc.assert(
    fc.property(text, (given) => {
      for (const line of quoted(given, look)) expect(rendered(line)).toMatch(/^ {2}│ /);
      const lines = table(
        [given, "end"],
        [
          { title: "A", value: (row) => row },
          { title: "B", value: () => "|" },
        ],
        look,
      );
      expect(lines).toHaveLength(3);
      for (const line of lines) isReadable(line);
      // The same width whatever was in it.
      expect(new Set(lines.slice(1).map((line) => widthOf(line.slice(0, line.lastIndexOf("|"))))).size).toBe(1);
    }),
  );
  expect(linesOf("a\r\nb\nc")).toEqual(["a", "b", "c"]);
});

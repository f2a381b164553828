/** How wide texts are on a terminal, and texts that are cut and broken by that. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { widthFor } from "../../src/cli/screen.ts";
import { layOut } from "../../src/cli/table-layout.ts";
import { clipToWidth, padToWidth, splitAtWidth, widthOf } from "../../src/cli/text-width.ts";
import { pack, prose, wrap } from "../../src/cli/wrap.ts";

const texts = fc.string({ unit: fc.constantFrom("a", "b", " ", "é", "発", "送", "📦", "👩‍👩‍👧", "e\u0301", "…") });
const widths = fc.integer({ min: 16, max: 60 });

test.each([
  ["plain", 5],
  ["é", 1],
  ["e\u0301", 1],
  ["発送", 4],
  ["ｆｕｌｌ", 8],
  ["한국", 4],
  ["\u1112\u1161\u11ab", 2],
  ["📦", 2],
  ["👩‍👩‍👧", 2],
  ["🇯🇵", 2],
  ["❤️", 2],
  ["a\u200bb", 2],
  ["● ○ ✓ ✗ ‖ ▸ · … –", 17],
])("%s takes %d columns", (text, width) => {
  expect(widthOf(text)).toBe(width);
});

test("a text is clipped to the width and no further, and only whole characters are left of it", () => {
  expect(clipToWidth("発送できません", 6)).toBe("発送…");
  expect(clipToWidth("発送できません", 7)).toBe("発送で…");
  expect(clipToWidth("👩‍👩‍👧👩‍👩‍👧", 3)).toBe("👩‍👩‍👧…");
  expect(padToWidth("発送", 6)).toBe("発送  ");
  expect(padToWidth("発送", 6, "right")).toBe("  発送");
  fc.assert(
    fc.property(texts, widths, (text, width) => {
      expect(widthOf(clipToWidth(text, width))).toBeLessThanOrEqual(width);
      const [head, tail] = splitAtWidth(text, width);
      expect(head + tail).toBe(text);
      expect(widthOf(head) + widthOf(tail)).toBe(widthOf(text));
    }),
  );
});

describe("a text over several lines", () => {
  test("is broken between words, and loses nothing but blanks", () => {
    expect(wrap("the warehouse did not answer in time", 20)).toEqual(["the warehouse did", "not answer in time"]);
    fc.assert(
      fc.property(texts, widths, (text, width) => {
        const lines = wrap(text, width);
        for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(width);
        expect(lines.join("").replaceAll(" ", "")).toBe(text.replaceAll(" ", ""));
      }),
    );
  });

  test("breaks a word only where it is longer than a line", () => {
    const id = "01a1ed24-bb8f-7603";
    expect(wrap(`it waits for ${id}`, 20)).toEqual(["it waits for", id]);
    expect(wrap(`see ${"x".repeat(30)} there`, 20)).toEqual([`see ${"x".repeat(16)}`, `${"x".repeat(14)} there`]);
  });

  test("ends with an ellipsis where it has more lines than it may", () => {
    expect(wrap("the warehouse did not answer in time", 16, 2)).toEqual(["the warehouse", "did not answer …"]);
  });

  test("is indented by the width of what stands before its first line", () => {
    expect(prose("one two three four five", { width: 18, mark: "· " })).toEqual(["· one two three", "  four five"]);
    expect(prose("  one two three four", { width: 18 })).toEqual(["  one two three", "  four"]);
  });

  test("has as many parts on a line as fit", () => {
    const parts = ["seen 1s ago", "host a", "process 1"].map((text) => ({ text, paint: String }));
    expect(pack(parts, { width: 20, between: " · " })).toEqual(["seen 1s ago · host a", "process 1"]);
  });
});

test.each([
  [{ isTTY: true, columns: 132 }, {}, 132],
  [{ isTTY: true, columns: 132 }, { COLUMNS: "200" }, 132],
  [{ isTTY: true, columns: 0 }, {}, 80],
  [{ isTTY: false }, {}, 80],
  [{ isTTY: false }, { COLUMNS: "200" }, 200],
  [{ isTTY: false }, { COLUMNS: "0" }, 80],
  [{ isTTY: false }, { COLUMNS: "wide" }, 80],
])("the width on %j with %j is %d", (stream, env, width) => {
  expect(widthFor(stream, env)).toBe(width);
});

describe("columns beside each other", () => {
  const column = (title: number, longest: number, atLeast?: number) => ({ title, cells: [longest], atLeast });

  test("are as wide as what they hold where that fits", () => {
    expect(layOut([column(2, 36), column(4, 10), column(6, 28)], 78)).toEqual([36, 10, 28]);
  });

  test("are shortened in equal parts, those that may be, and never below what they need", () => {
    expect(layOut([column(2, 36), column(4, 40, 10), column(6, 12, 6), column(6, 60, 10)], 90)).toEqual([
      36, 18, 12, 18,
    ]);
  });

  test("are fewer where even shortened they do not fit", () => {
    expect(layOut([column(2, 36), column(4, 36), column(6, 12)], 80)).toEqual([36, 36]);
    expect(layOut([column(2, 36), column(4, 36)], 20)).toEqual([2]);
  });
});

/** Whatever is shortened, wherever it is: never within a character. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { table } from "../../src/cli/table.ts";
import { clip } from "../../src/clip.ts";
import { describe as described } from "../../src/config/checks.ts";
import { framesOf } from "../../src/heart/thread-stack.ts";
import { evidenceLines } from "../../src/recovery/death-evidence.ts";
import { toErrorRecord } from "../../src/task/error-record.ts";
import { checkProgress } from "../../src/task/progress.ts";
import { LogRing } from "../../src/worker/log-ring.ts";

/** Whole characters only, of two units each, but for one at the beginning: so a cut at any place is within one for one of both. */
const texts = fc.constantFrom("", "a").map((first) => `${first}${"🫀".repeat(40_000)}`);

function lineOf(message: string, fields = {}): string {
  const ring = new LogRing();
  ring.add("info", fields, message);
  return ring.last()[0]?.text ?? "";
}

function tableOf(text: string, look: { atLeast?: number } = {}): string[] {
  const columns = [
    { title: "ID", value: () => "1" },
    { title: "TEXT", value: () => text, ...look },
  ];
  return table([text], columns, { colours: { dim: String } as never, width: 41 });
}

/** Everything that shortens a text of somebody else's. */
const EDGES: Record<string, (text: string) => unknown> = {
  "an error's message": (text) => toErrorRecord(new Error(text)).message,
  "an error's code and stack": (text) => toErrorRecord(Object.assign(new Error("x"), { code: text, stack: text })),
  "what was thrown": (text) => toErrorRecord(text),
  "a note of progress": (text) => checkProgress(0.5, text).note,
  "a log line": (text) => lineOf(text),
  "a log line with fields": (text) => lineOf("x".repeat(490), { text }),
  "a line of evidence": (text) => evidenceLines({ kind: "replica", because: "silent", log: [text] }),
  "a stack": (text) => framesOf(`Error\n    at ${text} (/a.js:1:1)`, undefined),
  "a value in a message": (text) => described(text),
  "a cell of a table": (text) => tableOf(text, { atLeast: 10 }),
  "a cell below its row": (text) => tableOf(text),
};

describe.each(Object.entries(EDGES))("%s", (_, shorten) => {
  test("that is too long ends with a whole character", () => {
    fc.assert(
      fc.property(texts, (text) => {
        const shortened = JSON.stringify(shorten(text));
        expect(shortened.length).toBeLessThan(text.length);
        expect(shortened).not.toMatch(/\\ud[89a-f]|\uFFFD/i);
      }),
    );
  });
});

test("a text is cut at the place that was asked for, or one before it", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), fc.nat(30), (text, most) => {
      const clipped = clip(text, most);
      expect(text.startsWith(clipped)).toBe(true);
      expect(clipped.length).toBeLessThanOrEqual(most);
      expect(clipped.length).toBeGreaterThanOrEqual(Math.min(text.length, most - 1));
      expect(JSON.stringify(clipped)).not.toMatch(/\\ud[89a-f]/i);
      expect(clip(text, most, "…")).toBe(clipped === text ? text : `${clipped}…`);
    }),
  );
});

/** The plain logger: one JSON object per line, whatever is logged, that commands no terminal. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { coloursFor, rendered } from "../../src/cli/colours.ts";
import type { Screen } from "../../src/cli/screen.ts";
import { createWorkLog } from "../../src/cli/work-log.ts";
import { Events } from "../../src/events.ts";
import { jsonLogger, type LogLevel } from "../../src/log.ts";
import { logEvents } from "../../src/log-events.ts";

const COMMANDS = /[\p{Cc}\p{Cs}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;

const text = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        ...'\x00\x07\b\t\n\r\x1b\x7f\x80\x85\x9b\x9f\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ud800\udfff\\"',
      ),
      fc.constantFrom("\x1b[2J", "\x9b2J", "\nFORGED", '"}\n{"level":"error"', "\\u009b", "\\", "é", "\u{1f600}"),
      fc.string({ unit: "binary" }),
    ),
  )
  .map((parts) => parts.join(""));

function linesOf(log: (logger: ReturnType<typeof jsonLogger>) => void): string[] {
  const lines: string[] = [];
  log(jsonLogger({ level: "debug", write: (line) => lines.push(line) }));
  return lines;
}

describe("a line of the plain logger", () => {
  test("is one line, has no character that a terminal obeys, and is the same JSON", () => {
    fc.assert(
      fc.property(text, text, text, (message, key, value) => {
        const fields = { own: { [key]: value, list: [value] } };
        const [line = "", ...more] = linesOf((log) => log.warn(fields, message));
        expect(more).toEqual([]);
        expect(line.endsWith("\n")).toBe(true);
        expect(line.slice(0, -1)).not.toMatch(COMMANDS);
        expect(JSON.parse(line)).toEqual({ time: expect.any(String), level: "warn", message, ...fields });
      }),
    );
  });

  test("is the same as ever where there is no such character", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme-ascii" }), (plain) => {
        const [line = ""] = linesOf((log) => log.info({ plain }, plain));
        const { time } = JSON.parse(line) as { time: string };
        expect(line).toBe(`${JSON.stringify({ time, level: "info", message: plain, plain })}\n`);
      }),
    );
  });
});

const circular: Record<string, unknown> = {};
circular["self"] = circular;
const throwing = {
  toJSON() {
    throw new Error("no");
  },
};
const UNSHOWABLE: Record<string, [fields: unknown, message: unknown]> = {
  "a BigInt in a field": [{ n: 10n }, "said"],
  "a circle in a field": [{ circular }, "said"],
  "a field that throws": [{ throwing }, "said"],
  "a BigInt for a message": [{}, 10n],
  "a circle for a message": [{}, circular],
  "a symbol for a message": [{}, Symbol("said")],
  "a message that throws": [{}, throwing],
  "no fields at all": [undefined, "said"],
  "a message without a text": [{}, Object.create(null)],
};

describe.each(Object.entries(UNSHOWABLE))("%s", (_, [fields, message]) => {
  test("never throws out of the plain logger, and what is written is JSON", () => {
    for (const line of linesOf((log) => log.error(fields as never, message as never))) {
      expect(JSON.parse(line)).toMatchObject({ time: expect.any(String), level: "error" });
      if (message === "said") expect(line).toContain("said");
    }
  });

  test("never throws out of the log of a worker at a terminal", () => {
    const lines: string[] = [];
    const screen = { isJson: false, colours: coloursFor({}, {}), say: (line: string) => lines.push(rendered(line)) };
    const log = createWorkLog(screen as unknown as Screen, "debug");
    log.error(fields as never, message as never);
    if (message === "said") expect(lines.join()).toContain("said");
  });
});

test("a line that cannot be written is dropped", () => {
  const log = jsonLogger({
    level: "debug",
    write() {
      throw new Error("EPIPE");
    },
  });
  expect(() => log.error({}, "said")).not.toThrow();
});

test.each([true, false])("a worker's log tells of failures from the level of warnings on (as JSON: %s)", (isJson) => {
  const told = (level: LogLevel) => {
    const lines: string[] = [];
    const write = (line: string) => lines.push(line);
    const log = createWorkLog({ isJson, colours: coloursFor({}, {}), say: write, answerLine: write } as never, level);
    const events = new Events(() => {});
    logEvents(events, log);
    const ended = {
      taskId: "t",
      claimId: "1",
      name: "a",
      attempt: 1,
      durationMs: 1,
      willRunAgain: false,
      error: undefined,
    };
    for (const outcome of ["completed", "failed"]) events.emit("task.ended", { ...ended, outcome } as never);
    return lines.map((line) => /completed|failed/.exec(line)?.[0]);
  };
  expect({ debug: told("debug"), info: told("info"), warn: told("warn"), error: told("error") }).toEqual({
    debug: ["completed", "failed"],
    info: ["failed"],
    warn: ["failed"],
    error: [],
  });
});

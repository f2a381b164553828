/**
 * The last log lines of an attempt, kept in memory and mirrored to the database, for whoever looks at a worker that was killed.
 * A handler that floods its log costs a slot that is used again, whatever it says: text is made only of the lines that are left.
 */
import { inspect } from "node:util";
import { clip, clipGiven } from "../clip.ts";
import type { LogFields, Logger, LogLevel } from "../log.ts";
import type { LogLine } from "../sql/progress.ts";
import { storableText } from "../task/error-record.ts";

const MAX_LINES = 20;
const MAX_CHARACTERS = 4_096;
const MAX_LINE = 500;

type LineLevel = Exclude<LogLevel, "silent">;

interface Kept {
  readonly atMs: number;
  readonly level: LineLevel;
  readonly fields: LogFields;
  readonly message: string;
}

export class LogRing {
  readonly #lines: Kept[] = [];
  #next = 0;

  add(level: LineLevel, fields: LogFields, message: string): void {
    this.#lines[this.#next] = { atMs: Date.now(), level, fields, message };
    this.#next = (this.#next + 1) % MAX_LINES;
  }

  /** Oldest first; of too much text, the newest. */
  last(): LogLine[] {
    const ordered = [...this.#lines.slice(this.#next), ...this.#lines.slice(0, this.#next)];
    const lines: LogLine[] = [];
    let room = MAX_CHARACTERS;
    for (const { atMs, level, fields, message } of ordered.reverse()) {
      const text = storableText(clip(`${shown(message)}${shownFields(fields)}`, MAX_LINE, "…"));
      room -= text.length;
      if (room < 0) break;
      lines.unshift({ at: new Date(atMs).toISOString(), level, text });
    }
    return lines;
  }
}

/** The same logger, whose lines are kept as well. */
export function keepingLines(logger: Logger, keep: LogRing["add"]): Logger {
  const both = (level: LineLevel) => (fields: LogFields, message: string) => {
    keep(level, fields, message);
    logger[level](fields, message);
  };
  return { debug: both("debug"), info: both("info"), warn: both("warn"), error: both("error") };
}

function shown(message: unknown): string {
  return typeof message === "string" ? clipGiven(message, MAX_LINE) : "";
}

/** Fields may be anything, however large or odd: only the beginning of each is shown. */
function shownFields(fields: unknown): string {
  if (typeof fields === "string") return clipGiven(fields, MAX_LINE);
  try {
    const text = inspect(fields, SHORTLY);
    return text === "{}" || text === "undefined" ? "" : ` ${text}`;
  } catch {
    return "";
  }
}

const SHORTLY = {
  depth: 2,
  breakLength: Number.POSITIVE_INFINITY,
  maxArrayLength: 10,
  maxStringLength: 200,
  customInspect: false,
};

/** The fields of a log line: what a handler gives may be anything, and must neither fail its task nor hide what the line is about. Pure. */
import { clip } from "./clip.ts";

export type LogFields = Readonly<Record<string, unknown>>;

const UNREADABLE = "[cannot be read]";

/** A line's own fields and those it was given, which replace none of its own: they are called `fields.…` instead. */
export function joinFields(own: LogFields, given: unknown): Record<string, unknown> {
  const entries = namesIn(given).map((key) => [Object.hasOwn(own, key) ? `fields.${key}` : key, readFrom(given, key)]);
  return { ...own, ...Object.fromEntries(entries) };
}

/**
 * As JSON can hold them, with errors in full. A field that cannot be shown costs the line that field alone. What is too much for one line is left
 * out: objects that know each other can be shown on more paths than there is memory for.
 */
export function showableFields(fields: unknown): Record<string, unknown> {
  const room: Room = { values: MOST_VALUES, characters: MOST_CHARACTERS };
  return shownEntries(fields, (value) => safely(() => showable(value, [], room), UNREADABLE), room);
}

/** What is left of one line's room. */
interface Room {
  values: number;
  characters: number;
}

const MAX_DEPTH = 50;
const MOST_VALUES = 10_000;
const MOST_CHARACTERS = 262_144;
const TOO_MUCH = "[too much for a line]";

function showable(value: unknown, within: readonly object[], room: Room): unknown {
  if (--room.values < 0) return TOO_MUCH;
  if (typeof value === "bigint") return shownText(String(value), room);
  if (typeof value === "string") return shownText(value, room);
  if (typeof value !== "object" || value === null) return value;
  if (within.includes(value)) return "[circular]";
  if (within.length >= MAX_DEPTH) return "[too deep]";
  const inside = [...within, value];
  if (value instanceof Error) return showableError(value, inside, room);
  if (ArrayBuffer.isView(value)) return `[${value.constructor.name} of ${value.byteLength} bytes]`;
  const own = withToJson(value) ? value.toJSON() : value;
  if (own !== value) return showable(own, inside, room);
  if (!Array.isArray(value)) return shownEntries(value, (entry) => showable(entry, inside, room), room);
  const shown = value.slice(0, Math.max(0, room.values)).map((entry) => showable(entry, inside, room));
  return shown.length < value.length ? [...shown, TOO_MUCH] : shown;
}

/** Without functions: a `toJSON` among them would take the place of the line. */
function shownEntries(value: unknown, show: (entry: unknown) => unknown, room: Room): Record<string, unknown> {
  const shown: [string, unknown][] = [];
  for (const key of namesIn(value)) {
    if (room.values <= 0) {
      shown.push(["…", TOO_MUCH]);
      break;
    }
    const entry = readFrom(value, key);
    if (typeof entry === "function") continue;
    shown.push([shownText(key, room), show(entry)]);
  }
  return Object.fromEntries(shown);
}

function shownText(text: string, room: Room): string {
  const shown = clip(text, room.characters, `… (${text.length} characters)`);
  room.characters = Math.max(0, room.characters - text.length);
  return shown;
}

/** What `JSON.stringify` leaves out of an error, which is all of it. */
function showableError(error: Error, inside: readonly object[], room: Room): unknown {
  const known = ERROR_KEYS.flatMap((key) => {
    const value = safely(() => error[key as keyof Error], UNREADABLE);
    return value === undefined ? [] : [[key, showable(value, inside, room)]];
  });
  return Object.fromEntries(known);
}

const ERROR_KEYS = ["name", "message", "code", "stack", "cause", "errors"];

function withToJson(value: object): value is { toJSON(): unknown } {
  return typeof (value as { toJSON?: unknown }).toJSON === "function";
}

function namesIn(value: unknown): string[] {
  return typeof value === "object" && value !== null ? Object.keys(value) : [];
}

function readFrom(value: unknown, key: string): unknown {
  return safely(() => (value as LogFields)[key], UNREADABLE);
}

/** A getter or a proxy that throws must not take the task down with it. */
function safely<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch {
    return otherwise;
  }
}

/** The fields of a log line: what a handler gives may be anything, and must neither fail its task nor hide what the line is about. Pure. */
export type LogFields = Readonly<Record<string, unknown>>;

const UNREADABLE = "[cannot be read]";

/** A line's own fields and those it was given, which replace none of its own: they are called `fields.…` instead. */
export function joinFields(own: LogFields, given: unknown): Record<string, unknown> {
  const entries = entriesOf(given).map(([key, value]) => [Object.hasOwn(own, key) ? `fields.${key}` : key, value]);
  return { ...own, ...Object.fromEntries(entries) };
}

/** As JSON can hold them, with errors in full. A field that cannot be shown costs the line that field alone. */
export function showableFields(fields: unknown): Record<string, unknown> {
  return Object.fromEntries(
    entriesOf(fields).map(([key, value]) => [key, safely(() => showable(value, []), UNREADABLE)]),
  );
}

const MAX_DEPTH = 50;

function showable(value: unknown, within: readonly object[]): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object" || value === null) return value;
  if (within.includes(value)) return "[circular]";
  if (within.length >= MAX_DEPTH) return "[too deep]";
  const inside = [...within, value];
  if (value instanceof Error) return showableError(value, inside);
  const own = withToJson(value) ? value.toJSON() : value;
  if (own !== value) return showable(own, inside);
  if (Array.isArray(value)) return value.map((entry) => showable(entry, inside));
  return Object.fromEntries(entriesOf(value).map(([key, entry]) => [key, showable(entry, inside)]));
}

/** What `JSON.stringify` leaves out of an error, which is all of it. */
function showableError(error: Error, inside: readonly object[]): unknown {
  const known = ERROR_KEYS.flatMap((key) => {
    const value = safely(() => error[key as keyof Error], UNREADABLE);
    return value === undefined ? [] : [[key, showable(value, inside)]];
  });
  return Object.fromEntries(known);
}

const ERROR_KEYS = ["name", "message", "code", "stack", "cause", "errors"];

function withToJson(value: object): value is { toJSON(): unknown } {
  return typeof (value as { toJSON?: unknown }).toJSON === "function";
}

function entriesOf(value: unknown): [string, unknown][] {
  if (typeof value !== "object" || value === null) return [];
  return Object.keys(value).map((key) => [key, safely(() => (value as LogFields)[key], UNREADABLE)]);
}

/** A getter or a proxy that throws must not take the task down with it. */
function safely<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch {
    return otherwise;
  }
}

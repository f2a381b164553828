/** What is kept of whatever a handler threw: always storable, however odd the thing was. */
import { clip, clipGiven, isReadable } from "../clip.ts";
import { stringifyWithin } from "./json-measure.ts";

export interface ErrorRecord {
  readonly code: string;
  readonly name?: string;
  readonly message: string;
  readonly stack?: string;
  readonly cause?: ErrorRecord;
  /** Of an `AggregateError`: the first of the errors in it. */
  readonly errors?: readonly ErrorRecord[];
  /** How many more there were. */
  readonly errorsLeftOff?: number;
}

const MAX_TEXT = 16_384;
/** An object that was thrown and is larger than this as JSON is not made into text, of which little would be kept. */
const MAX_SHOWN = 1_048_576;
const MAX_CAUSES = 5;
/** Of one aggregate, and of everything in one record: aggregates can be within each other. */
const MAX_ERRORS = 5;
const MAX_RECORDS = 12;
const MAX_CAUSE_TEXT = 500;

/** How much may still go into a record. */
interface Room {
  records: number;
}

/** `who`: what threw it, where that was no handler. */
export function toErrorRecord(thrown: unknown, fallbackCode = "TASK_FAILED", who = "The handler"): ErrorRecord {
  if (!isErrorLike(thrown)) return { code: fallbackCode, message: kept(`${who} threw ${showThrown(thrown)}.`) };
  return recordOf(thrown, { fallbackCode, depth: 0, room: { records: MAX_RECORDS } });
}

/** The message with what is behind it, for a line of text: `fetch failed (cause: bad port)`. */
export function inOneLine({ message, cause, errors = [], errorsLeftOff = 0 }: ErrorRecord): string {
  const more = errorsLeftOff === 0 ? [] : [`${errorsLeftOff} more`];
  const parts = [
    ...(errors.length === 0 ? [] : [`errors: ${[...errors.map(inOneLine), ...more].join("; ")}`]),
    // Many a message repeats that of its cause.
    ...(cause === undefined || message.includes(cause.message) ? [] : [`cause: ${inOneLine(cause)}`]),
  ];
  return parts.length === 0 ? message : `${message} (${clip(parts.join("; "), MAX_CAUSE_TEXT, "…")})`;
}

interface RecordParts {
  readonly fallbackCode: string;
  readonly depth: number;
  readonly room: Room;
}

function recordOf(thrown: unknown, parts: RecordParts): ErrorRecord {
  parts.room.records--;
  if (!isErrorLike(thrown)) return { code: parts.fallbackCode, message: kept(showThrown(thrown)) };
  const code = readText(thrown, "code");
  const name = readText(thrown, "name");
  const message = readText(thrown, "message") || name || "an error without a message";
  // It has the message in it.
  const stack = isReadable(message) ? readText(thrown, "stack") : undefined;
  return {
    code: kept(code ?? parts.fallbackCode),
    ...(name === undefined ? {} : { name: kept(name) }),
    message: kept(message),
    ...(stack === undefined ? {} : { stack: kept(framesOf(stack)) }),
    ...causeOf(thrown, parts),
    ...errorsIn(thrown, parts),
  };
}

function causeOf(thrown: object, { fallbackCode, depth, room }: RecordParts): Pick<ErrorRecord, "cause"> {
  const cause = safely(() => (thrown as { cause?: unknown }).cause);
  if (cause == null || depth >= MAX_CAUSES || room.records <= 0) return {};
  return { cause: recordOf(cause, { fallbackCode, depth: depth + 1, room }) };
}

function errorsIn(
  thrown: object,
  { fallbackCode, depth, room }: RecordParts,
): Pick<ErrorRecord, "errors" | "errorsLeftOff"> {
  // By its name too: one that was carried from a runner, or read from the record, is no instance any more.
  const isAggregate = thrown instanceof AggregateError || readText(thrown, "name") === "AggregateError";
  const all = isAggregate ? safely(() => [...(thrown as AggregateError).errors] as unknown[]) : undefined;
  if (!all || all.length === 0 || depth >= MAX_CAUSES) return {};
  const errors: ErrorRecord[] = [];
  for (const one of all.slice(0, MAX_ERRORS)) {
    if (room.records <= 0) break;
    errors.push(recordOf(one, { fallbackCode, depth: depth + 1, room }));
  }
  const before = safely(() => (thrown as Partial<ErrorRecord>).errorsLeftOff) ?? 0;
  const leftOff = all.length - errors.length + before;
  return { errors, ...(leftOff === 0 ? {} : { errorsLeftOff: leftOff }) };
}

/** What was thrown, unless the mere question what it is throws in turn, as a proxy can: that must not reach the worker. */
export function examinable(thrown: unknown): unknown {
  try {
    void (thrown instanceof Error);
    return thrown;
  } catch {
    return new Error("Something was thrown that cannot be examined.");
  }
}

function isErrorLike(thrown: unknown): thrown is object {
  return (
    thrown instanceof Error ||
    (typeof thrown === "object" && thrown !== null && typeof readText(thrown, "message") === "string")
  );
}

/** The frames alone: the message stands beside them, and a long one would crowd them out. */
function framesOf(stack: string): string {
  if (!isReadable(stack)) return stack;
  const first = stack.search(/^ +at /m);
  return first < 0 ? stack : stack.slice(first);
}

function readText(from: object, key: string): string | undefined {
  const value = safely(() => (from as Record<string, unknown>)[key]);
  return typeof value === "string" ? value : undefined;
}

function showThrown(thrown: unknown): string {
  if (typeof thrown === "string" && !isReadable(thrown)) return `a text of ${thrown.length} characters`;
  if (typeof thrown === "string") return JSON.stringify(thrown);
  if (typeof thrown === "bigint") return `${thrown}n`;
  if (typeof thrown === "function") return safely(() => String(thrown)) ?? "a function that cannot be shown";
  if (typeof thrown !== "object" || thrown === null) return String(thrown);
  return safely(() => stringifyWithin(thrown, MAX_SHOWN)) ?? "an object that cannot be shown";
}

/** A getter or a proxy that throws must not take the worker down with it. */
function safely<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function kept(text: string): string {
  return storableText(clipGiven(text, MAX_TEXT, `… (${text.length} characters)`));
}

/** Without what PostgreSQL cannot turn into text: the zero character and halves of surrogate pairs. */
export function storableText(text: string): string {
  return text.replaceAll("\0", "\uFFFD").replace(LONE_SURROGATE, "\uFFFD");
}

const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;

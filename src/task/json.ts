/**
 * JSON that loses nothing: what `JSON.stringify` would silently drop or change (NaN, functions, Map, holes, …) is a
 * problem here, with the path to it, instead of a surprise in another process.
 */
import { types } from "node:util";
import { inOneLine, toErrorRecord } from "./error-record.ts";
import { Measure, stringifyWithin, TooLarge } from "./json-measure.ts";

export type JsonResult = Stored | NotStorable;

interface Stored {
  readonly ok: true;
  readonly text: string;
  /** None for plain data. */
  readonly changes: ReadonlySet<JsonChange>;
}

interface NotStorable {
  readonly ok: false;
  readonly problem: string;
  /** What a getter or a toJSON() threw. */
  readonly cause?: unknown;
}

/** What comes back from JSON in another form: a `Date` as text, what its `toJSON()` says, `undefined` as nothing, an instance as a plain object. */
export type JsonChange = "date" | "toJSON" | "undefined" | "instance";

/** How a problem begins that is not the size. */
export const NOT_JSON = "it is not JSON";

export const DEFAULT_JSON_LIMIT_BYTES = 1_048_576;

/** What is deeper can be read by everybody, and not be written again: `JSON.stringify` calls itself for each level. */
const MAX_LEVELS = 1_000;
const TOO_DEEP = { ok: false, problem: "it is nested more than 1,000 levels deep" } as const;
const QUICK_DEPTH = 8;
const MOST_BYTES_PER_CHARACTER = 3;
const NO_CHANGES: ReadonlySet<JsonChange> = new Set();

/** One look through a value. */
interface Walk {
  /** The objects that contain the one that is looked at. */
  readonly above: Set<object>;
  readonly changes: Set<JsonChange>;
  readonly measure: Measure;
  /** What is being read. */
  path: string;
}

export function toJson(value: unknown, limitBytes: number = DEFAULT_JSON_LIMIT_BYTES): JsonResult {
  const quick = toJsonQuickly(value, limitBytes);
  if (quick !== undefined) return { ok: true, text: quick, changes: NO_CHANGES };
  const walk: Walk = { above: new Set(), changes: new Set(), measure: new Measure(limitBytes), path: "" };
  try {
    return encode(value, limitBytes, walk);
  } catch (error) {
    if (isStackOverflow(error)) return TOO_DEEP;
    if (error instanceof TooLarge) return tooLarge(`at least ${error.leastBytes}`, limitBytes);
    return { ok: false, problem: `${NOT_JSON}: ${at(walk.path, "a getter throws")}`, cause: error };
  }
}

/** The text of values that are plain and flat, as most are; undefined for what needs a closer look, or is too large. */
export function toJsonQuickly(value: unknown, limitBytes: number): string | undefined {
  try {
    if (!isSurelyFaithful(value, 0, new Measure(limitBytes))) return undefined;
    const text = JSON.stringify(value);
    return fits(text, limitBytes) ? text : undefined;
  } catch {
    return undefined;
  }
}

/** Counted only where it matters. */
function fits(text: string, limitBytes: number): boolean {
  return text.length * MOST_BYTES_PER_CHARACTER <= limitBytes || Buffer.byteLength(text) <= limitBytes;
}

function encode(value: unknown, limitBytes: number, walk: Walk): JsonResult {
  const lossy = findLossy(value, "", walk);
  if (lossy) return { ok: false, problem: `${NOT_JSON}: ${lossy}` };
  const written = write(value, walk.changes.has("toJSON") ? limitBytes : undefined);
  if ("problem" in written) return { ok: false, ...written };
  const { text } = written;
  if (text === undefined) return { ok: false, problem: `${NOT_JSON}: its toJSON() returns undefined` };
  if (isTooDeep(text)) return TOO_DEEP;
  const bytes = Buffer.byteLength(text);
  if (bytes > limitBytes) return tooLarge(String(bytes), limitBytes);
  return { ok: true, text, changes: walk.changes };
}

function tooLarge(bytes: string, limitBytes: number): NotStorable {
  const problem = `it has ${bytes} bytes as JSON and at most ${limitBytes} are allowed; store it elsewhere and pass a reference`;
  return { ok: false, problem };
}

/** `limitBytes`: for what says by a `toJSON()` what it is, which nobody has measured yet. */
function write(
  value: unknown,
  limitBytes: number | undefined,
): { text: string | undefined } | { problem: string; cause: unknown } {
  try {
    if (limitBytes !== undefined) return { text: stringifyWithin(value, limitBytes) };
    return { text: JSON.stringify(value === undefined ? null : value) as string | undefined };
  } catch (error) {
    if (isStackOverflow(error) || error instanceof TooLarge) throw error;
    const path = whereToJsonThrows(value, "", new Set());
    return { problem: `${NOT_JSON}: ${at(path ?? "", "a toJSON() throws")}`, cause: error };
  }
}

function isStackOverflow(error: unknown): boolean {
  return error instanceof RangeError && /call stack/.test(error.message);
}

/** Asks each `toJSON()` again: `JSON.stringify` does not say which one it was. */
function whereToJsonThrows(value: unknown, path: string, above: Set<object>): string | undefined {
  if (typeof value !== "object" || value === null || above.has(value)) return undefined;
  above.add(value);
  let said: unknown = value;
  const { toJSON } = value as { toJSON?: unknown };
  try {
    if (typeof toJSON === "function") said = toJSON.call(value, "");
  } catch {
    return path;
  }
  if (said !== value) return whereToJsonThrows(said, path, above);
  for (const [key, entry] of Object.entries(value)) {
    const inner = Array.isArray(value) ? `${path}[${key}]` : join(path, key);
    const found = whereToJsonThrows(entry, inner, above);
    if (found !== undefined) return found;
  }
  above.delete(value);
  return undefined;
}

/** Whether this JSON has more levels than are allowed. */
export function isTooDeep(text: string): boolean {
  if (text.length <= 2 * MAX_LEVELS) return false;
  let level = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[{]|[\]}]/g)) {
    if (token === "[" || token === "{") level++;
    else if (token === "]" || token === "}") level--;
    if (level > MAX_LEVELS) return true;
  }
  return false;
}

function isSurelyFaithful(value: unknown, depth: number, measure: Measure): boolean {
  measure.add(value);
  switch (typeof value) {
    case "string":
    case "boolean":
      return true;
    case "number":
      return Number.isFinite(value);
    case "object":
      break;
    default:
      return false;
  }
  if (value === null) return true;
  if (depth === QUICK_DEPTH || "toJSON" in value) return false;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      if (!isSurelyFaithful(value[index], depth + 1, measure)) return false;
    }
    return true;
  }
  if (Object.getPrototypeOf(value) !== Object.prototype) return false;
  for (const key in value) {
    measure.addKey(key);
    if (!isSurelyFaithful((value as Record<string, unknown>)[key], depth + 1, measure)) return false;
  }
  return true;
}

function findLossy(value: unknown, path: string, walk: Walk): string | undefined {
  if (!isLeftToItself(value)) walk.measure.add(value);
  switch (typeof value) {
    case "string":
    case "boolean":
      return undefined;
    case "undefined":
      walk.changes.add("undefined");
      return undefined;
    case "number":
      return Number.isFinite(value) ? undefined : at(path, String(value));
    case "object":
      return value === null ? undefined : findLossyInObject(value, path, walk);
    default:
      return at(path, `a ${typeof value}`);
  }
}

/** Its size is not known before it is written: it may be left out, or say by `toJSON()` what it is. That of a `Buffer` makes a list of its bytes. */
function isLeftToItself(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return value === undefined;
  const { toJSON } = value as { toJSON?: unknown };
  return typeof toJSON === "function" && toJSON !== Buffer.prototype.toJSON;
}

function findLossyInObject(value: object, path: string, walk: Walk): string | undefined {
  const { above } = walk;
  if (above.has(value)) return at(path, "a reference back to an object that contains it");
  // It would become null, as NaN would.
  if (types.isDate(value) && Number.isNaN(value.getTime())) return at(path, "an invalid Date");
  if (typeof (value as { toJSON?: unknown }).toJSON === "function") {
    walk.changes.add(value instanceof Date ? "date" : "toJSON");
    return undefined;
  }
  above.add(value);
  try {
    if (Array.isArray(value)) {
      for (let index = 0; index < value.length; index++) {
        const entry: unknown = value[index];
        const where = `${path}[${index}]`;
        // A missing property reads back as undefined, but an entry of a list would come back as null.
        const lossy = entry === undefined ? at(where, "undefined in a list") : findLossy(entry, where, walk);
        if (lossy) return lossy;
      }
      return undefined;
    }
    // Each of its characters is a key.
    if (types.isStringObject(value)) return at(path, "a String, which JSON cannot hold");
    const keys = Object.keys(value);
    if (!isPlain(value)) {
      if (keys.length === 0) return at(path, `${withArticle(value.constructor.name)}, which JSON cannot hold`);
      walk.changes.add("instance");
    }
    for (const key of keys) {
      walk.path = join(path, key);
      const entry = (value as Record<string, unknown>)[key];
      if (!isLeftToItself(entry)) walk.measure.addKey(key);
      const lossy = findLossy(entry, walk.path, walk);
      if (lossy) return lossy;
    }
    return undefined;
  } finally {
    above.delete(value);
  }
}

function withArticle(name: string): string {
  return `${/^[AEIOU]/i.test(name) ? "an" : "a"} ${name}`;
}

function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null;
}

function join(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}

function at(path: string, what: string): string {
  return path === "" ? what : `${what} at ${path}`;
}

/** The problem in one line, with the message of what was thrown. */
export function problemLine({ problem, cause }: NotStorable): string {
  return cause === undefined ? problem : `${problem} (cause: ${inOneLine(toErrorRecord(cause))})`;
}

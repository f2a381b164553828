/**
 * JSON that loses nothing: what `JSON.stringify` would silently drop or change (NaN, functions, Map, holes, …) is a
 * problem here, with the path to it, instead of a surprise in another process.
 */
import { types } from "node:util";

export type JsonResult =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly problem: string };

/** How a problem begins that is not the size. */
export const NOT_JSON = "it is not JSON";

export const DEFAULT_JSON_LIMIT_BYTES = 1_048_576;

/** What is deeper can be read by everybody, and not be written again: `JSON.stringify` calls itself for each level. */
const MAX_LEVELS = 1_000;
const TOO_DEEP = { ok: false, problem: "it is nested more than 1,000 levels deep" } as const;
const QUICK_DEPTH = 8;
const MOST_BYTES_PER_CHARACTER = 3;

export function toJson(value: unknown, limitBytes: number = DEFAULT_JSON_LIMIT_BYTES): JsonResult {
  const quick = toJsonQuickly(value, limitBytes);
  if (quick !== undefined) return { ok: true, text: quick };
  try {
    return encode(value, limitBytes);
  } catch (error) {
    if (error instanceof RangeError && /call stack/.test(error.message)) return TOO_DEEP;
    return { ok: false, problem: `${NOT_JSON}: a getter or a toJSON() of it throws` };
  }
}

/** The text of values that are plain and flat, as most are; undefined for what needs a closer look, or is too large. */
export function toJsonQuickly(value: unknown, limitBytes: number): string | undefined {
  try {
    if (!isSurelyFaithful(value, 0)) return undefined;
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

function encode(value: unknown, limitBytes: number): JsonResult {
  const lossy = findLossy(value, "", new Set());
  if (lossy) return { ok: false, problem: `${NOT_JSON}: ${lossy}` };
  const text = JSON.stringify(value === undefined ? null : value) as string | undefined;
  if (text === undefined) return { ok: false, problem: `${NOT_JSON}: its toJSON() returns undefined` };
  if (isTooDeep(text)) return TOO_DEEP;
  const bytes = Buffer.byteLength(text);
  if (bytes > limitBytes) {
    return {
      ok: false,
      problem: `it has ${bytes} bytes as JSON and at most ${limitBytes} are allowed; store it elsewhere and pass a reference`,
    };
  }
  return { ok: true, text };
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

function isSurelyFaithful(value: unknown, depth: number): boolean {
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
  if (depth === QUICK_DEPTH) return false;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      if (!isSurelyFaithful(value[index], depth + 1)) return false;
    }
    return true;
  }
  if (Object.getPrototypeOf(value) !== Object.prototype || "toJSON" in value) return false;
  for (const key in value) {
    if (!isSurelyFaithful((value as Record<string, unknown>)[key], depth + 1)) return false;
  }
  return true;
}

function findLossy(value: unknown, path: string, above: Set<object>): string | undefined {
  switch (typeof value) {
    case "string":
    case "boolean":
      return undefined;
    case "undefined":
      // A missing property reads back as undefined; an array entry would come back as null.
      return path.endsWith("]") ? at(path, "undefined in a list") : undefined;
    case "number":
      return Number.isFinite(value) ? undefined : at(path, String(value));
    case "object":
      return value === null ? undefined : findLossyInObject(value, path, above);
    default:
      return at(path, `a ${typeof value}`);
  }
}

function findLossyInObject(value: object, path: string, above: Set<object>): string | undefined {
  if (above.has(value)) return at(path, "a reference back to an object that contains it");
  // It would become null, as NaN would.
  if (types.isDate(value) && Number.isNaN(value.getTime())) return at(path, "an invalid Date");
  if (typeof (value as { toJSON?: unknown }).toJSON === "function") return undefined;
  above.add(value);
  try {
    if (Array.isArray(value)) {
      for (let index = 0; index < value.length; index++) {
        const lossy = findLossy(value[index], `${path}[${index}]`, above);
        if (lossy) return lossy;
      }
      return undefined;
    }
    const prototype = Object.getPrototypeOf(value);
    const isPlain = prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null;
    if (!isPlain && Object.keys(value).length === 0)
      return at(path, `${withArticle(value.constructor.name)}, which JSON cannot hold`);
    for (const [key, entry] of Object.entries(value)) {
      const lossy = findLossy(entry, path === "" ? key : `${path}.${key}`, above);
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

function at(path: string, what: string): string {
  return path === "" ? what : `${what} at ${path}`;
}

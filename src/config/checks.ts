/**
 * A small vocabulary for checking options once, at the edge: each check returns the value it understood or notes a
 * problem, and `checkOptions` runs a table of them, so that all problems of a call come out together.
 */
import { clip } from "../clip.ts";
import { durationMs, exactDuration, longDuration } from "./duration.ts";
import { nearestKey } from "./nearest-key.ts";
import type { Problems } from "./problems.ts";

export type Check<T> = (value: unknown, path: string, problems: Problems) => T | undefined;
export type Checked<S> = { [K in keyof S]?: S[K] extends Check<infer T> ? T | undefined : never };

/** Every known key through its check; unknown keys are problems, with the nearest known one. Keys that are undefined are left out. */
export function checkOptions<S extends Record<string, Check<unknown>>>(
  options: unknown,
  shape: S,
  at: { path: string; problems: Problems; example?: string },
): Checked<S> {
  const checked: Record<string, unknown> = {};
  if (options === undefined) return checked as Checked<S>;
  if (!isObject(options, at)) return checked as Checked<S>;
  for (const [key, value] of Object.entries(options)) {
    const check = Object.hasOwn(shape, key) ? shape[key] : undefined;
    const path = pathOf(at.path, key);
    if (!check) at.problems.add(path, unknownKey(key, Object.keys(shape)));
    else if (value !== undefined) checked[key] = check(value, path, at.problems);
  }
  return checked as Checked<S>;
}

/** Notes the problem where it is none. `example`: what it could look like. */
export function isObject(value: unknown, at: { path: string; problems: Problems; example?: string }): value is object {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return true;
  const example = at.example === undefined ? "" : ` such as ${at.example}`;
  at.problems.add(at.path, `must be an object${example}, not ${describe(value)}`);
  return false;
}

/** Where an option is: those at the top have nothing before them. */
export function pathOf(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}

export function unknownKey(key: string, known: readonly string[], what = "option"): string {
  const nearest = nearestKey(key, known);
  return `there is no such ${what}${nearest ? `; did you mean "${nearest}"?` : `; known are ${known.join(", ")}`}`;
}

export const anything: Check<unknown> = (value) => value;

export const isBoolean: Check<boolean> = (value, path, problems) => {
  if (typeof value === "boolean") return value;
  problems.add(path, `must be true or false, not ${describe(value)}`);
  return undefined;
};

export function isInteger(range: { min: number; max: number }): Check<number> {
  return (value, path, problems) => {
    if (Number.isInteger(value) && (value as number) >= range.min && (value as number) <= range.max)
      return value as number;
    problems.add(path, `must be a whole number from ${range.min} to ${range.max}, not ${describe(value)}`);
    return undefined;
  };
}

/** Durations come out in whole milliseconds. */
export function isDuration(range: { minMs: number; maxMs: number }): Check<number> {
  return (value, path, problems) => {
    const ms = durationMs(value);
    if (ms !== undefined && ms >= range.minMs && ms <= range.maxMs) return ms;
    const bounds = `${range.minMs === 0 ? "" : `from ${exactDuration(range.minMs)} `}up to ${longDuration(range.maxMs)}`;
    problems.add(
      path,
      `must be a duration ${bounds}: milliseconds such as 1500, or one number with one of the units ms, s, m, h, d, such as "30s" or "1.5h"; not ${describe(value)}`,
    );
    return undefined;
  };
}

export function isText(rule: { max: number; pattern?: RegExp; hint?: string }): Check<string> {
  return (value, path, problems) => {
    const unstorable = typeof value === "string" ? unstorableIn(value) : undefined;
    if (unstorable !== undefined) {
      problems.add(path, `contains ${unstorable}, which PostgreSQL cannot store as text: ${describe(value)}`);
      return undefined;
    }
    const fits =
      typeof value === "string" &&
      value.length > 0 &&
      lengthOf(value) <= rule.max &&
      (!rule.pattern || rule.pattern.test(value));
    if (fits) return value;
    problems.add(path, `must be ${rule.hint ?? `text of 1 to ${rule.max} characters`}, not ${describe(value)}`);
    return undefined;
  };
}

function unstorableIn(text: string): string | undefined {
  if (text.includes("\0")) return "a NUL character";
  return /\p{Surrogate}/u.test(text) ? "half a surrogate pair" : undefined;
}

/** In characters, as the database counts them. */
function lengthOf(text: string): number {
  return text.replace(/[\uD800-\uDBFF][\uDC00-\uDFFF]/g, "_").length;
}

export function isOneOf<const T extends string>(allowed: readonly T[]): Check<T> {
  return (value, path, problems) => {
    if (allowed.includes(value as T)) return value as T;
    const nearest = typeof value === "string" ? nearestKey(value, allowed) : undefined;
    const hint = nearest ? `; did you mean "${nearest}"?` : "";
    problems.add(path, `must be ${allowed.map((a) => `"${a}"`).join(" or ")}, not ${describe(value)}${hint}`);
    return undefined;
  };
}

export function isListOf<T>(check: Check<T>): Check<T[]> {
  return (value, path, problems) => {
    if (!Array.isArray(value) || value.length === 0) {
      problems.add(path, `must be a list with at least one entry, not ${describe(value)}`);
      return undefined;
    }
    return value.map((entry, index) => check(entry, `${path}[${index}]`, problems)) as T[];
  };
}

const ISO_8601 =
  /^([1-9]\d{3}-\d\d-\d\d)(T([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?(Z|[+-](0\d|1[0-4]):[0-5]\d))?$/;

/**
 * A moment: a Date, or text that names one exactly: ISO 8601 with its zone, or a day in UTC. Comes out as ISO text. Years of four digits
 * only: JavaScript writes others in a way that the database does not read.
 */
export const isInstant: Check<string> = (value, path, problems) => {
  const date = value instanceof Date ? value : typeof value === "string" ? readInstant(value) : undefined;
  const text = date && !Number.isNaN(date.getTime()) ? date.toISOString() : undefined;
  if (text !== undefined && ISO_8601.test(text)) return text;
  problems.add(
    path,
    `must be a Date or an ISO 8601 time such as "2030-01-31T09:00:00Z", from the year 1000 to 9999, not ${text ?? describe(value)}`,
  );
  return undefined;
};

function readInstant(text: string): Date | undefined {
  const day = ISO_8601.exec(text)?.[1];
  // JavaScript takes the 30th of February for the 2nd of March.
  const isDay = day !== undefined && new Date(day).toJSON()?.startsWith(day);
  return isDay ? new Date(text) : undefined;
}

export const isFunction: Check<(...args: never[]) => unknown> = (value, path, problems) => {
  if (typeof value === "function") return value as (...args: never[]) => unknown;
  problems.add(path, `must be a function, not ${describe(value)}`);
  return undefined;
};

export const isAbortSignal: Check<AbortSignal> = (value, path, problems) => {
  // By what is used of it: one of another realm, or of a library, is as good.
  const { addEventListener, throwIfAborted } = (value ?? {}) as Partial<AbortSignal>;
  if (typeof addEventListener === "function" && typeof throwIfAborted === "function") return value as AbortSignal;
  problems.add(path, `must be an AbortSignal, not ${describe(value)}`);
  return undefined;
};

export function isOptions<S extends Record<string, Check<unknown>>>(shape: S): Check<Checked<S>> {
  return (value, path, problems) => checkOptions(value, shape, { path, problems });
}

export function orNull<T>(check: Check<T>): Check<T | null> {
  return (value, path, problems) => (value === null ? null : check(value, path, problems));
}

/** A value as it should appear in a message: short, and never a dump. */
export function describe(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(clip(value, 40, "…"));
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return "a function";
  if (value === null || typeof value !== "object") return String(value);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "an invalid Date" : "a Date";
  return Array.isArray(value) ? `a list of ${value.length}` : "an object";
}

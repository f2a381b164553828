/** Checks an option's text by the same rules as the API, while the command line is being read. */
import { InvalidArgumentError } from "commander";
import { type Check, isInstant, isInteger } from "../config/checks.ts";
import { durationMs } from "../config/duration.ts";
import { Problems } from "../config/problems.ts";

export function checkedBy<T>(check: Check<T>, read: (text: string) => unknown = (text) => text): (text: string) => T {
  return (text) => {
    const problems = new Problems();
    const value = check(read(text), "", problems);
    if (value === undefined || !problems.isEmpty)
      throw new InvalidArgumentError(`It ${problems.list.join("; ")}.`.replace(/\?\.$/, "?"));
    return value;
  };
}

/** A number where the text is one, else the text, for a check to complain about. */
export function asNumber(text: string): number | string {
  return /^-?\d+$/.test(text) ? Number(text) : text;
}

/** A bare number is milliseconds. */
export function asDuration(text: string): number | string {
  return /^\d+$/.test(text) ? Number(text) : text;
}

/** A person's time without a zone is meant where that person is. */
export function asTime(text: string): string {
  const local = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text)
    ? new Date(text.replace(" ", "T"))
    : undefined;
  return local && !Number.isNaN(local.getTime()) ? local.toISOString() : text;
}

/** "100/1m"; "100/s" and "100/1s" are the same. */
export function asRate(text: string): { limit: number | string; per: number } | undefined {
  const [limit = "", per = "", ...rest] = text.split("/");
  const perMs = durationMs(/^\d/.test(per) ? per : `1${per}`);
  return perMs === undefined || rest.length > 0 ? undefined : { limit: asNumber(limit), per: perMs };
}

export function wholeNumber(range: { min: number; max: number }): (text: string) => number {
  return checkedBy(isInteger(range), asNumber);
}

/** In milliseconds. */
export function duration(check: Check<number>): (text: string) => number {
  return checkedBy(check, asDuration);
}

/** A moment, or how long before now. */
export type Since = { readonly at: string } | { readonly agoMs: number };

export function since(text: string): Since {
  const agoMs = durationMs(text);
  if (agoMs !== undefined) return { agoMs };
  const problems = new Problems();
  const at = isInstant(asTime(text), "", problems);
  if (at === undefined) throw new InvalidArgumentError('It must be a duration such as "15m" or an ISO 8601 time.');
  return { at };
}

export function commaSeparated<T>(check: Check<T>): (text: string) => T[] {
  const one = checkedBy(check);
  return (text) => text.split(",").map((part) => one(part.trim()));
}

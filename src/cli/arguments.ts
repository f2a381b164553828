/** Checks an option's text by the same rules as the API, while the command line is being read. */
import { InvalidArgumentError } from "commander";
import { type Check, isDuration, isInstant, isInteger } from "../config/checks.ts";
import { durationMs } from "../config/duration.ts";
import { Problems } from "../config/problems.ts";

export function checkedBy<T>(check: Check<T>, read: (text: string) => unknown = (text) => text): (text: string) => T {
  return (text) => {
    const problems = new Problems();
    const value = check(read(text), "", problems);
    if (value === undefined || !problems.isEmpty) throw new InvalidArgumentError(`It ${problems.list.join("; ")}.`);
    return value;
  };
}

export function wholeNumber(range: { min: number; max: number }): (text: string) => number {
  return checkedBy(isInteger(range), (text) => (/^-?\d+$/.test(text) ? Number(text) : text));
}

/** In milliseconds. A bare number is milliseconds too. */
export function duration(range: { minMs: number; maxMs: number }): (text: string) => number {
  return checkedBy(isDuration(range), (text) => (/^\d+$/.test(text) ? Number(text) : text));
}

export const instant = checkedBy(isInstant);

/** A moment, or how long before now. */
export type Since = { readonly at: string } | { readonly agoMs: number };

export function since(text: string): Since {
  const agoMs = durationMs(text);
  if (agoMs !== undefined) return { agoMs };
  const problems = new Problems();
  const at = isInstant(text, "", problems);
  if (at === undefined) throw new InvalidArgumentError('It must be a duration such as "15m" or an ISO 8601 time.');
  return { at };
}

export function commaSeparated<T>(check: Check<T>): (text: string) => T[] {
  const one = checkedBy(check);
  return (text) => text.split(",").map((part) => one(part.trim()));
}

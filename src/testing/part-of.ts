/** Whether a value has at least what another names. Pure. */
import { isDeepStrictEqual } from "node:util";

/** Any of the keys of an object, at every depth; lists and plain values are given whole. */
export type PartOf<T> = T extends readonly unknown[] ? T : T extends object ? { [K in keyof T]?: PartOf<T[K]> } : T;

/** `part` undefined asks for nothing. Both are compared as JSON would have them: what is undefined is not there. */
export function isPartOf(part: unknown, whole: unknown): boolean {
  if (part === undefined) return true;
  if (!isPlain(part)) return isDeepStrictEqual(asJson(part), whole);
  if (!isPlain(whole)) return false;
  return Object.entries(part).every(([key, value]) => isPartOf(value, whole[key]));
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    typeof (value as { toJSON?: unknown }).toJSON !== "function"
  );
}

function asJson(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value)) as unknown;
}

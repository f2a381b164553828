/** A value as JSON for the screen: a long one is cut, and says so. */
import { clip } from "../clip.ts";
import { formatted } from "./formatted.ts";

const MOST = 4_000;

export function shortJson(value: unknown): string | undefined {
  const json = JSON.stringify(value);
  if (json === undefined || json.length <= MOST) return json;
  const [shown, whole] = [MOST, json.length].map(formatted);
  return clip(json, MOST, `… (the first ${shown} of ${whole} characters; --json shows all)`);
}

/** The checker: a pure function of the whole record and of all that was done. An empty list: nothing was broken. */
import { checkClaims } from "./check-claims.ts";
import { checkDeaths } from "./check-deaths.ts";
import { checkPlaces } from "./check-places.ts";
import type { History, Record } from "./record.ts";

export function checkRecord(history: History, record: Record): string[] {
  return [...checkPlaces(history, record), ...checkClaims(history, record), ...checkDeaths(history, record)];
}

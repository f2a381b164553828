/** A rate limit for people: "100 per 1m". */
import { exactDuration } from "./duration.ts";

export function rateWords({ limit, perMs }: { readonly limit: number; readonly perMs: number }): string {
  return `${limit} per ${exactDuration(perMs)}`;
}

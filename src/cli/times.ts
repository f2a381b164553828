/** Moments as people say them, counted by the database's clock: every stamp that is shown comes from it. */
import { formatDuration } from "../config/duration.ts";
import type { Since } from "./arguments.ts";
import type { Asking } from "./asking.ts";

export function fromNow(at: Date | null, now: Date): string {
  if (at === null) return "";
  const ms = now.getTime() - at.getTime();
  if (Math.abs(ms) < 1_000) return "just now";
  return ms > 0 ? `${roundly(ms)} ago` : `in ${roundly(-ms)}`;
}

export function lasting(from: Date | null, to: Date | null): string {
  return from === null || to === null ? "" : formatDuration(Math.max(0, to.getTime() - from.getTime()));
}

/** A moment in full, and how far away it is. */
export function momentAndDistance(at: Date | null, now: Date): string | undefined {
  return at === null ? undefined : `${at.toISOString()} (${fromNow(at, now)})`;
}

export function age(from: Date, now: Date): string {
  return roundly(Math.max(0, now.getTime() - from.getTime()));
}

/** Since when nobody has listened. */
export function unheardWords(since: Date, now: Date): string {
  return `nobody has listened for ${age(since, now)}`;
}

/** Tenths of seconds only unsettle the eye in something that is not measured. */
function roundly(ms: number): string {
  return ms < 1_000 ? "0s" : formatDuration(Math.floor(ms / 1_000) * 1_000);
}

/** Counted back from the database's now: its clock stamped what is looked for, and ours may differ. */
export async function momentOf(given: Since | undefined, { now }: Asking): Promise<string | undefined> {
  if (given === undefined) return undefined;
  if ("at" in given) return given.at;
  return new Date((await now()).getTime() - given.agoMs).toISOString();
}

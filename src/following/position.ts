/**
 * How far somebody has read (pure). Transactions commit in another order than they begin, so no number says it: a position is what a snapshot of
 * the database could see. What it could not see is still to be told, whenever it commits. As text it is opaque, and good in every process.
 */
import type { Check } from "../config/checks.ts";
import type { SeenUntil } from "../sql/following.ts";

/** Everything that `before` could see has been told, and of what `until` could see besides, everything up to `id`. */
export interface Position extends SeenUntil {
  /** Of another life of the server it says nothing: transactions may have been forgotten, and their numbers used again. */
  readonly epoch: string;
  /** What its reader knows of the topic: nothing is told again, and nothing is left out that nobody has told. */
  readonly told: string;
}

export function writePosition({ epoch, before, until, id, told }: Position): string {
  return Buffer.from([epoch, before, until, id, told].join(" ")).toString("base64url");
}

/** Undefined: nobody has written it. */
export function readPosition(text: string): Position | undefined {
  const parts = Buffer.from(text, "base64url").toString("latin1").split(" ");
  const [epoch = "", before = "", until = "", id = "", told = ""] = parts;
  const isOurs = /^[0-9a-f]{1,16}$/.test(epoch) && isSnapshot(before) && isSnapshot(until) && isBigint(id);
  return isOurs && parts.length === 5 && /^[\w,-]{0,150}$/.test(told) ? { epoch, before, until, id, told } : undefined;
}

export const isPosition: Check<Position> = (value, path, problems) => {
  const position = typeof value === "string" ? readPosition(value) : undefined;
  if (!position) problems.add(path, "must be the `position` of an update that was told before");
  return position;
};

/** Whether a snapshot (`xmin:xmax:xip,…`) could see what this transaction has written. */
export function isSeenIn(snapshot: string, xact: string): boolean {
  const [, xmax = "0", underWay = ""] = snapshot.split(":");
  return Number(xact) < Number(xmax) && !underWay.split(",").includes(xact);
}

/** What PostgreSQL takes for a snapshot: its numbers in their order. */
function isSnapshot(text: string): boolean {
  const [, xmin, xmax, underWay = ""] = /^(\d{1,15}):(\d{1,15}):((?:\d{1,15},)*\d{1,15})?$/.exec(text) ?? [];
  if (xmin === undefined || xmax === undefined || Number(xmin) < 1 || Number(xmin) > Number(xmax)) return false;
  const ids = underWay === "" ? [] : underWay.split(",").map(Number);
  return ids.every((id, at) => id >= Number(xmin) && id < Number(xmax) && id > (ids[at - 1] ?? 0));
}

function isBigint(text: string): boolean {
  return /^\d{1,19}$/.test(text) && BigInt(text) < 2n ** 63n;
}

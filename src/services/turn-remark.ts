/** What is wrong with a service of the cluster, by its turn on record. Pure. */
import { formatDuration } from "../config/duration.ts";
import type { TurnRow } from "../sql/turns.ts";
import { patienceMs } from "./line.ts";
import { SERVICES } from "./list.ts";

type Run = Pick<TurnRow, "service" | "isRunning" | "takenAgoMs" | "everyMs" | "error" | "failures">;

/** It should have been run again. One that this version does not know may be of a version that is gone. */
export function isOverdue({ service, isRunning, takenAgoMs, everyMs }: Run): boolean {
  return service in SERVICES && !isRunning && takenAgoMs > patienceMs(everyMs);
}

/** Undefined: nothing. */
export function turnRemark(turn: Run): string | undefined {
  const { error, failures, takenAgoMs, everyMs } = turn;
  if (isOverdue(turn))
    return `not run for ${formatDuration(Math.round(takenAgoMs))}, and should be every ${formatDuration(everyMs)}`;
  if (error === null) return undefined;
  return failures === 1 ? `failed: ${error}` : `failed ${failures} times in a row: ${error}`;
}

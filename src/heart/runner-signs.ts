/** What a replica's heart tells of the runners in its charge, with its own beats. */
import type { RunnerRecord } from "../sql/runners.ts";

/** By the steady clock, which all of a machine's processes share: it may be told later than it was true. */
export interface RunnerSign extends Omit<RunnerRecord, "ageMs" | "silentForMs" | "exit"> {
  readonly startedAtMs: number;
  /** Undefined for a thread, which lives and dies with the process whose heart beats. */
  readonly heardAtMs: number | undefined;
}

export function recordsOf(signs: readonly RunnerSign[], nowMs: number): RunnerRecord[] {
  return signs.map(({ startedAtMs, heardAtMs, ...rest }) => ({
    ...rest,
    ageMs: nowMs - startedAtMs,
    silentForMs: heardAtMs === undefined ? 0 : nowMs - heardAtMs,
    exit: undefined,
  }));
}

/** Keeps what handlers report instead of writing it. */
import type { ClaimId } from "../task/ids.ts";
import { checkPhase, checkProgress } from "../task/progress.ts";
import type { Reporting } from "../worker/reports.ts";

export interface RecordedPhase {
  readonly phase: string;
  /** As it would come out of the database; null where there are none. */
  readonly details: unknown;
}

export interface RecordedProgress {
  /** From 0 to 1. */
  readonly share: number;
  readonly done: number | null;
  readonly total: number | null;
  readonly note: string | null;
}

export interface RecordedReports {
  readonly phases: readonly RecordedPhase[];
  readonly progress: readonly RecordedProgress[];
}

export function recordingReports(): Reporting & { reportsOf(claimId: ClaimId): RecordedReports } {
  const recorded = new Map<ClaimId, { phases: RecordedPhase[]; progress: RecordedProgress[] }>();
  const reportsOf = (claimId: ClaimId) => {
    const known = recorded.get(claimId) ?? { phases: [], progress: [] };
    recorded.set(claimId, known);
    return known;
  };
  return {
    reportsOf,
    of: ({ claimed: { claimId } }) => ({
      async phase(name, given) {
        const { phase, details } = checkPhase(name, given);
        reportsOf(claimId).phases.push({ phase, details: details === null ? null : JSON.parse(details) });
      },
      progress: (value, note) => void reportsOf(claimId).progress.push(checkProgress(value, note)),
      keeping: (logger) => logger,
    }),
    flush: async () => {},
  };
}

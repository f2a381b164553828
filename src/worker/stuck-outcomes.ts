/** Tells of outcomes that cannot be written while others can: by an alert for each, which ends when it was written. */
import type { Database } from "../database/database.ts";
import { isLocked } from "../database/transient.ts";
import { raiseAlert, resolveAlerts } from "../sql/alerts.ts";
import type { Outcome } from "../sql/outcomes.ts";
import { toErrorRecord } from "../task/error-record.ts";
import type { ClaimId, TaskId } from "../task/ids.ts";
import type { Outages } from "./outages.ts";

const KIND = "outcome-stuck";
/** The first refusal may only be of what the outcome holds, and a lock may be gone in a moment. */
const TOLD_FROM = { refused: 2, locked: 4 };

export class StuckOutcomes {
  readonly #parts: { readonly database: Database; readonly outages: Outages };
  readonly #times = new Map<ClaimId, number>();

  constructor(parts: { readonly database: Database; readonly outages: Outages }) {
    this.#parts = parts;
  }

  note({ claim, task }: Outcome, error: unknown): void {
    const times = (this.#times.get(claim) ?? 0) + 1;
    this.#times.set(claim, times);
    this.#parts.outages.noticed(error, "writing outcomes");
    if (times !== (isLocked(error) ? TOLD_FROM.locked : TOLD_FROM.refused)) return;
    const message = `The outcome of task ${task} cannot be written: ${toErrorRecord(error).message} Its worker keeps it and tries again.`;
    void raiseAlert(this.#parts.database, { kind: KIND, subject: subjectOf(task), message }).catch(() => {});
  }

  noteWritten(outcomes: readonly Outcome[]): void {
    if (this.#times.size === 0) return;
    for (const { claim, task } of outcomes)
      if (this.#times.delete(claim)) void resolveAlerts(this.#parts.database, KIND, subjectOf(task)).catch(() => {});
  }
}

function subjectOf(task: TaskId): string {
  return `task ${task}`;
}

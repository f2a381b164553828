/** Tells of outcomes that cannot be written while others can: by an alert for each, which ends when it was written. */
import type { Alerts } from "../alerts/alerts.ts";
import { isLocked } from "../database/transient.ts";
import type { Outcome } from "../sql/outcomes.ts";
import { toErrorRecord } from "../task/error-record.ts";
import type { ClaimId, TaskId } from "../task/ids.ts";
import type { Outages } from "./outages.ts";

const KIND = "outcome-stuck";
/** The first refusal may only be of what the outcome holds, and a lock may be gone in a moment. */
const TOLD_FROM = { refused: 2, locked: 4 };

export class StuckOutcomes {
  readonly #parts: { readonly alerts: Alerts; readonly outages: Outages };
  readonly #tries = new Map<ClaimId, number>();

  constructor(parts: { readonly alerts: Alerts; readonly outages: Outages }) {
    this.#parts = parts;
  }

  note({ claim, task }: Outcome, error: unknown): void {
    const { alerts, outages } = this.#parts;
    const tries = (this.#tries.get(claim) ?? 0) + 1;
    this.#tries.set(claim, tries);
    outages.noticed(error, "writing outcomes");
    const from = isLocked(error) ? TOLD_FROM.locked : TOLD_FROM.refused;
    const subject = subjectOf(task);
    if (tries < from || alerts.isOpen(KIND, subject)) return;
    const message = `The outcome of task ${task} cannot be written: ${toErrorRecord(error).message} Its worker keeps it and tries again.`;
    // By the claim, a sweep knows when it is over, should this worker die first.
    void alerts.raise({ kind: KIND, part: claim, subject, message });
  }

  noteWritten(outcomes: readonly Outcome[]): void {
    if (this.#tries.size === 0) return;
    const { alerts } = this.#parts;
    for (const { claim, task } of outcomes) {
      const subject = subjectOf(task);
      if (this.#tries.delete(claim) && alerts.isOpen(KIND, subject)) alerts.resolve(KIND, subject);
    }
  }
}

function subjectOf(task: TaskId): string {
  return `task ${task}`;
}

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
/** An alert leaves the record when it is old, and writing it may have failed: it is raised again at every so many tries. */
const TOLD_EVERY = 100;

export class StuckOutcomes {
  readonly #parts: { readonly database: Database; readonly outages: Outages };
  readonly #tries = new Map<ClaimId, number>();
  readonly #told = new Set<ClaimId>();
  /** One after the other, so that what was said last is what stays. */
  #writing: Promise<void> = Promise.resolve();

  constructor(parts: { readonly database: Database; readonly outages: Outages }) {
    this.#parts = parts;
  }

  note({ claim, task }: Outcome, error: unknown): void {
    const tries = (this.#tries.get(claim) ?? 0) + 1;
    this.#tries.set(claim, tries);
    this.#parts.outages.noticed(error, "writing outcomes");
    const from = isLocked(error) ? TOLD_FROM.locked : TOLD_FROM.refused;
    if (tries < from || (this.#told.has(claim) && tries % TOLD_EVERY !== 0)) return;
    const message = `The outcome of task ${task} cannot be written: ${toErrorRecord(error).message} Its worker keeps it and tries again.`;
    // By the claim, a sweep knows when it is over, should this worker die first.
    const alert = { kind: KIND, part: claim, subject: subjectOf(task), message };
    this.#write(async () => {
      await raiseAlert(this.#parts.database, alert);
      if (this.#tries.has(claim)) this.#told.add(claim);
    });
  }

  noteWritten(outcomes: readonly Outcome[]): void {
    if (this.#tries.size === 0) return;
    for (const { claim, task } of outcomes) {
      this.#told.delete(claim);
      if (this.#tries.delete(claim)) this.#write(() => resolveAlerts(this.#parts.database, KIND, subjectOf(task)));
    }
  }

  /** What could not be written about an alert is no reason to stop: it is raised again, and sweeps resolve those that are over. */
  #write(act: () => Promise<void>): void {
    this.#writing = this.#writing.then(act).catch(() => {});
  }
}

function subjectOf(task: TaskId): string {
  return `task ${task}`;
}

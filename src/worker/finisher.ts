/**
 * Writes outcomes, in batches that never wait for a slow task. While the database is away they are held here, in memory:
 * a process that is killed in that time loses them, and its tasks are recovered like those of any dead worker.
 */
import { createBackoff } from "../database/backoff.ts";
import type { Database } from "../database/database.ts";
import { isAboutTheValues } from "../database/transient.ts";
import { Batcher } from "../queue/batcher.ts";
import { endClaims, type Outcome } from "../sql/outcomes.ts";
import { toErrorRecord } from "../task/error-record.ts";
import type { Outages } from "./outages.ts";

/** done: written now. repeat: had been written, the reply was lost. late: refused, the claim is lost. given up: see `giveUp`. */
export type FinishVerdict = "done" | "repeat" | "late" | "given-up";

export class Finisher {
  readonly #database: Database;
  readonly #outages: Outages;
  readonly #onUnparked: () => void;
  readonly #givingUp = new AbortController();
  readonly #batcher: Batcher<Outcome, FinishVerdict>;

  constructor(parts: { database: Database; outages: Outages; onUnparked: () => void }) {
    this.#database = parts.database;
    this.#outages = parts.outages;
    this.#onUnparked = parts.onUnparked;
    this.#batcher = new Batcher({ maxItems: 1_000, maxUnderWay: 2, run: (outcomes) => this.#write(outcomes) });
  }

  /** Outcomes that are not written yet. */
  get held(): number {
    return this.#batcher.size;
  }

  finish(outcome: Outcome): Promise<FinishVerdict> {
    return this.#batcher.add(outcome);
  }

  async idle(): Promise<void> {
    await this.#batcher.idle();
  }

  /** Stops trying: what is still held is lost, and the tasks stay with this replica until they are recovered. */
  giveUp(): void {
    this.#givingUp.abort();
  }

  /** Repeated until it is known to be written: a repeated outcome is recognised by its claim. */
  async #write(outcomes: readonly Outcome[]): Promise<FinishVerdict[]> {
    const backoff = createBackoff({ firstMs: 50, maxMs: 2_000 });
    while (!this.#givingUp.signal.aborted) {
      try {
        return await this.#writeOnce(outcomes);
      } catch (error) {
        const middle = Math.ceil(outcomes.length / 2);
        // Trouble of any other kind (a full disk, a right that was taken away) says nothing about the outcome: it is held.
        if (!isAboutTheValues(error)) this.#outages.noticed(error, "writing outcomes");
        // One that the database will not take must not hold up the others, nor its own task.
        else if (middle < outcomes.length)
          return [...(await this.#write(outcomes.slice(0, middle))), ...(await this.#write(outcomes.slice(middle)))];
        else outcomes = outcomes.map((outcome) => notStorable(outcome, error));
        await backoff.pause(this.#givingUp.signal);
      }
    }
    return outcomes.map(() => "given-up");
  }

  async #writeOnce(outcomes: readonly Outcome[]): Promise<FinishVerdict[]> {
    const report = await endClaims(this.#database, outcomes);
    this.#outages.over("writing outcomes");
    if (report.hasUnparked) this.#onUnparked();
    const repeated = new Set(report.repeated);
    const late = new Set(report.late);
    return outcomes.map(({ claim }) => (late.has(claim) ? "late" : repeated.has(claim) ? "repeat" : "done"));
  }
}

function notStorable({ claim, task, replica }: Outcome, error: unknown): Outcome {
  const why = toErrorRecord(error).message;
  return {
    claim,
    task,
    replica,
    to: "failed",
    outcome: "failed",
    error: { code: "OUTCOME_NOT_STORABLE", message: `The database refused the outcome: ${why}` },
  };
}

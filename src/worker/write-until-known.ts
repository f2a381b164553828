/** Writes outcomes again and again until it is known what became of each. */
import { createBackoff } from "../database/backoff.ts";
import { inHalves } from "../database/in-halves.ts";
import { isAboutTheValues } from "../database/transient.ts";
import type { Outcome } from "../sql/outcomes.ts";
import { toErrorRecord } from "../task/error-record.ts";
import type { Verdict } from "./rounds.ts";

export interface Writing {
  readonly write: (outcomes: readonly Outcome[]) => Promise<readonly Verdict[]>;
  readonly onTrouble: (error: unknown) => void;
  /** Fires when it is to stop trying. */
  readonly signal: AbortSignal;
}

/** A repeated outcome is recognised by its claim. */
export function writeUntilKnown(outcomes: readonly Outcome[], writing: Writing): Promise<readonly Verdict[]> {
  return inHalves(
    outcomes,
    (part) => writeThroughTrouble(part, writing, isAboutTheValues),
    // If the database refuses the outcome, its attempt must still end.
    (outcome, error) => writeThroughTrouble([notStorable(outcome, error)], writing),
  );
}

/** An error of any other kind (a full disk, a right that was revoked) says nothing about the outcomes: they are kept and tried again. */
async function writeThroughTrouble(
  outcomes: readonly Outcome[],
  writing: Writing,
  isNoTrouble: (error: unknown) => boolean = () => false,
): Promise<readonly Verdict[]> {
  const backoff = createBackoff({ firstMs: 50, maxMs: 2_000 });
  while (!writing.signal.aborted) {
    try {
      return await writing.write(outcomes);
    } catch (error) {
      if (isNoTrouble(error)) throw error;
      writing.onTrouble(error);
      await backoff.pause(writing.signal);
    }
  }
  return outcomes.map(() => "given-up");
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

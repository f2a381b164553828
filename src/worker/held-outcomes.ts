/**
 * Outcomes whose round has failed, until it is known what became of each. They are written beside the rounds, so that an outcome that the database
 * refuses, or whose claim somebody has locked, keeps no other task from starting or ending.
 */
import { createBackoff } from "../database/backoff.ts";
import { inHalves } from "../database/in-halves.ts";
import { isAboutSomeRows, isLocked } from "../database/transient.ts";
import type { Outcome } from "../sql/outcomes.ts";
import { toErrorRecord } from "../task/error-record.ts";
import { howManyFit } from "./round-plan.ts";
import type { Verdict } from "./rounds.ts";

export interface HeldOutcomesParts<Ended> {
  /** A repeated outcome is recognised by its claim. */
  readonly write: (outcomes: readonly Outcome[]) => Promise<readonly Verdict[]>;
  readonly onVerdicts: (ended: readonly Ended[], verdicts: readonly Verdict[]) => void;
  /** Nothing can be written now. */
  readonly onTrouble: (error: unknown) => void;
  /** This one cannot be written, while others can. */
  readonly onStuck: (outcome: Outcome, error: unknown) => void;
  /** Fires when it is to stop trying. */
  readonly signal: AbortSignal;
}

export class HeldOutcomes<Ended extends { readonly outcome: Outcome }> {
  readonly #parts: HeldOutcomesParts<Ended>;
  #held: Ended[] = [];
  #isWriting = false;

  constructor(parts: HeldOutcomesParts<Ended>) {
    this.#parts = parts;
  }

  add(ended: readonly Ended[]): void {
    this.#held.push(...ended);
    if (!this.#isWriting) void this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    const { signal, onVerdicts } = this.#parts;
    const backoff = createBackoff({ firstMs: 50, maxMs: 2_000 });
    this.#isWriting = true;
    while (this.#held.length > 0 && !signal.aborted) {
      const left = await this.#write(this.#held.splice(0, howManyFit(this.#held)));
      this.#held.push(...left);
      if (left.length > 0) await backoff.pause(signal);
      else backoff.reset();
    }
    this.#isWriting = false;
    const givenUp = this.#held.splice(0);
    if (givenUp.length > 0)
      onVerdicts(
        givenUp,
        givenUp.map(() => "given-up"),
      );
  }

  /** Tries once. Returns those of which it is not known yet what became of them. */
  async #write(some: readonly Ended[]): Promise<readonly Ended[]> {
    const left = new Set(some);
    const write = async (part: readonly Ended[], outcomes = part.map(({ outcome }) => outcome)) => {
      const verdicts = await this.#parts.write(outcomes);
      for (const one of part) left.delete(one);
      this.#parts.onVerdicts(part, verdicts);
      return [];
    };
    const writeOther = async (one: Ended, error: unknown) => {
      this.#parts.onStuck(one.outcome, error);
      // If the database refuses what the outcome holds, its attempt must still end. If that is refused too, it is not about what it holds:
      // the outcome itself is tried again.
      if (!isLocked(error)) await write([one], [notStorable(one.outcome, error)]).catch(ignoreRefusal);
      return [];
    };
    try {
      await inHalves(some, write, writeOther, isAboutSomeRows);
    } catch (error) {
      // A full disk, a right that was revoked: that says nothing about the outcomes.
      this.#parts.onTrouble(error);
    }
    return [...left];
  }
}

function ignoreRefusal(error: unknown): void {
  if (!isAboutSomeRows(error)) throw error;
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

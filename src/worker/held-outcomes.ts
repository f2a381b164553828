/**
 * Outcomes whose round has failed, until it is known what became of each. They are written beside the rounds, so that an outcome that the database
 * refuses, or whose claim somebody has locked, keeps no other task from starting or ending.
 *
 * Those of one round are written by one statement. If it fails while the database is there, it may be because of one of them: they are written in
 * halves, until the one that fails is alone. That one is stuck, and is tried again now and then. Claims that somebody has locked are asked for
 * instead, because each try waits for the lock.
 */
import { createBackoff } from "../database/backoff.ts";
import { isAboutTheValues, isAway, isLocked } from "../database/transient.ts";
import type { Outcome } from "../sql/outcomes.ts";
import { toErrorRecord } from "../task/error-record.ts";
import type { ClaimId } from "../task/ids.ts";
import { howManyFit } from "./round-plan.ts";
import type { OutcomeStatus } from "./rounds.ts";

export interface HeldOutcomesParts<Ended> {
  /** A repeated outcome is recognised by its claim. */
  readonly write: (outcomes: readonly Outcome[]) => Promise<readonly OutcomeStatus[]>;
  /** Those whose claims somebody has locked. */
  readonly findLocked: (outcomes: readonly Outcome[]) => Promise<ReadonlySet<ClaimId>>;
  readonly onStatuses: (ended: readonly Ended[], statuses: readonly OutcomeStatus[]) => void;
  /** Nothing can be written now. */
  readonly onTrouble: (error: unknown) => void;
  /** This one cannot be written. Called at each try. */
  readonly onStuck: (outcome: Outcome, error: unknown) => void;
  /** Fires when it is to stop trying. */
  readonly signal: AbortSignal;
}

/** What became of some outcomes. away: the database is, and they wait. */
type Became = "written" | "halved" | "stuck" | "away";

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;

export class HeldOutcomes<Ended extends { readonly outcome: Outcome }> {
  readonly #parts: HeldOutcomesParts<Ended>;
  /** Of rounds that failed. */
  #waiting: Ended[] = [];
  /** Written by one statement each, before those that wait: halves of one that failed. */
  #halves: Ended[][] = [];
  /** Each has failed alone. */
  #stuck: Ended[] = [];
  /** Where the one in its place was refused too: what refuses them is not what they hold, whenever that ends. */
  readonly #notForTheirValues = new WeakSet<Ended>();
  #pause = new AbortController();
  #isWriting = false;

  constructor(parts: HeldOutcomesParts<Ended>) {
    this.#parts = parts;
  }

  add(ended: readonly Ended[]): void {
    this.#waiting.push(...ended);
    // They need not wait for the next try of what is stuck.
    this.#pause.abort();
    if (!this.#isWriting) void this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    const { signal, onStatuses } = this.#parts;
    const backoff = createBackoff({ firstMs: FIRST_PAUSE_MS, maxMs: LONGEST_PAUSE_MS });
    this.#isWriting = true;
    while (!signal.aborted && !this.#isEmpty) {
      this.#pause = new AbortController();
      const hasWritten = await this.#writeWhatCan();
      if (hasWritten) backoff.reset();
      if (!this.#isEmpty) await backoff.pause(signal, this.#pause.signal);
    }
    this.#isWriting = false;
    const givenUp = [...this.#halves.splice(0).flat(), ...this.#waiting.splice(0), ...this.#stuck.splice(0)];
    if (givenUp.length === 0) return;
    onStatuses(
      givenUp,
      givenUp.map(() => "given-up"),
    );
  }

  get #isEmpty(): boolean {
    return this.#halves.length + this.#waiting.length + this.#stuck.length === 0;
  }

  /** Until all is written, or nothing more can be written now. True: something was written. */
  async #writeWhatCan(): Promise<boolean> {
    let hasWritten = false;
    for (let some = this.#next(); some; some = this.#next()) {
      const became = await this.#write(some);
      // Where nothing else was written either, the fault may be in the database rather than in this outcome.
      if (became === "away" || (became === "stuck" && !hasWritten)) return hasWritten;
      hasWritten ||= became === "written";
    }
    // Each is tried once. Those that have come meanwhile go first.
    for (let left = this.#stuck.length; left > 0 && this.#waiting.length === 0 && !this.#parts.signal.aborted; left--) {
      const became = await this.#write(this.#stuck.splice(0, 1));
      if (became === "away") return hasWritten;
      hasWritten ||= became === "written";
    }
    return hasWritten;
  }

  #next(): Ended[] | undefined {
    if (this.#parts.signal.aborted) return undefined;
    const half = this.#halves.shift();
    if (half) return half;
    return this.#waiting.length > 0 ? this.#waiting.splice(0, howManyFit(this.#waiting)) : undefined;
  }

  async #write(some: Ended[]): Promise<Became> {
    try {
      await this.#writeAs(some);
      return "written";
    } catch (error) {
      if (isAway(error)) {
        this.#halves.unshift(some);
        this.#parts.onTrouble(error);
        return "away";
      }
      const [first] = some;
      if (some.length === 1 && first) return this.#writeOther(first, error);
      const free = isLocked(error) ? await this.#withoutLocked(some, error) : some;
      const middle = free.length < some.length ? free.length : Math.ceil(some.length / 2);
      this.#halves.unshift(...[free.slice(0, middle), free.slice(middle)].filter(({ length }) => length > 0));
      return "halved";
    }
  }

  /** Those whose claims are locked are stuck. What is locked may also be something else that the statement needs. */
  async #withoutLocked(some: Ended[], error: unknown): Promise<Ended[]> {
    const locked = await this.#parts.findLocked(some.map(({ outcome }) => outcome)).catch((notFound: unknown) => {
      this.#parts.onTrouble(notFound);
      return new Set<ClaimId>();
    });
    const isStuck = ({ outcome }: Ended) => locked.has(outcome.claim);
    for (const one of some.filter(isStuck)) {
      this.#parts.onStuck(one.outcome, error);
      this.#stuck.push(one);
    }
    return some.filter((one) => !isStuck(one));
  }

  /**
   * If the database refuses what the outcome holds, its attempt must still end. If that is refused too, it is not about what it holds: from then on
   * only the outcome itself is tried, because what refused both may end between the two.
   */
  async #writeOther(one: Ended, error: unknown): Promise<Became> {
    this.#parts.onStuck(one.outcome, error);
    if (isAboutTheValues(error) && !this.#notForTheirValues.has(one)) {
      try {
        await this.#writeAs([{ ...one, outcome: notStorable(one.outcome, error) }]);
        return "written";
      } catch (refused) {
        // The first refusal was told of.
        if (isAboutTheValues(refused)) this.#notForTheirValues.add(one);
      }
    }
    this.#stuck.push(one);
    return "stuck";
  }

  async #writeAs(some: readonly Ended[]): Promise<void> {
    const statuses = await this.#parts.write(some.map(({ outcome }) => outcome));
    this.#parts.onStatuses(some, statuses);
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

/**
 * What can fall silent: hearts, attempts without progress, and whatever comes next. A source lists those in doubt, says from when on their silence
 * means something, and acts. Everything in between is the same for all (silence-sweep.ts):
 *
 *   listen ──▶ silence ──▶ verdict ──▶ guard ──▶ look again and act, in the moment of writing ──▶ tell ──▶ recover
 */
import type { Limits } from "./limits.ts";
import type { Fleet, MassDeathPolicy } from "./mass-death.ts";
import type { PassedBy } from "./passed-by.ts";
import type { DeadVerdict, Silence, Verdict } from "./verdict.ts";

/**
 * One who is not surely well. `silentForMs` is counted by the clock that stamped the signs, which is the database's, and only since somebody listens:
 * now − max(last sign, start, hearing since). So neither our own outage nor a new server makes anybody silent.
 */
export interface Doubtful<Context> extends Silence {
  /** Who it is, in words that stay the same: a replica, a task. */
  readonly subject: string;
  /** All else that the source needs to judge it, to act and to tell. */
  readonly context: Context;
}

export interface Judged<Context> extends Doubtful<Context> {
  readonly verdict: Verdict;
}

export interface Dead<Context> extends Doubtful<Context> {
  readonly verdict: DeadVerdict;
}

/** Thresholds, and what is done to those who are beyond them. */
export interface Policy<Context> {
  /** In words that go before the subject: "the verdict on". */
  readonly doing: string;
  /** One statement for each of them. Otherwise one for all, and in halves where that is refused because of some. */
  readonly isOneByOne: boolean;
  limitsOf(doubtful: Doubtful<Context>): Limits;
  /**
   * Acts on those that are dead by this policy, and returns those that it was done to. It looks at the evidence again while it holds what a new sign of
   * life would have to change, and leaves out what is no longer beyond `verdict.beyondMs`. A sign of life in the same row is looked at by one conditional
   * update. A sign in another table needs two statements: the first locks the rows, and only the second, with a newer snapshot, sees what was
   * committed while the first waited.
   */
  act(dead: readonly Dead<Context>[]): Promise<readonly Dead<Context>[]>;
  /** Whoever it was done to, right after that. */
  tell(done: readonly Dead<Context>[]): void;
}

/** Against a mass death that is none: who falls silent together is probably cut off together. A `RememberedGuard` is one for any source. */
export interface Guard<Context> {
  readonly policy: MassDeathPolicy;
  /** Those who fail independently of each other, and how many of them are dying. Judged by the first policy. */
  count(judged: readonly Judged<Context>[]): Pick<Fleet, "groups" | "dying">;
  /** Holds, or goes on holding: remembered where a takeover finds it. */
  hold(): Promise<Pick<Fleet, "heldForMs" | "isConfirmed">>;
  /** Called where the hold is not over yet. */
  tellOfHold(fleet: Fleet): Promise<void>;
  /** There is no mass death, or no longer. Called in every sweep. */
  release(): Promise<void>;
}

export interface Source<Context> {
  /** The whole of it, in words: "giving verdicts". */
  readonly doing: string;
  /** Tells of those on whom a verdict could not be carried out. One that cannot be never stops the others. */
  readonly passedBy: PassedBy;
  /** The gravest first. It also says who is stale; whoever is not dead by it is judged by the next. */
  readonly policies: readonly [Policy<Context>, ...Policy<Context>[]];
  /** Without one, any number may be acted on at once. */
  readonly guard?: Guard<Context>;
  findDoubtful(): Promise<readonly Doubtful<Context>[]>;
  /** Everybody who is stale now, in every sweep. It writes nothing into the rows of those whom it warns of. */
  warn(stale: readonly Doubtful<Context>[]): Promise<void>;
  /** Verdicts were given on all of them, but for those that were passed by. */
  settle?(): Promise<void>;
  /**
   * What follows from the deaths, in every sweep: by what is on record, and not by what this sweep has done, since whoever declared a death
   * may not have lived to do more.
   */
  recover?(): Promise<void>;
}

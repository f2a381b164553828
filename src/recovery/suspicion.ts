/**
 * Which of the tasks that a dead process was running may have killed it. Pure.
 *
 * Whoever ran alone is *charged*. Of several, all are *suspected*: that costs nothing, but is remembered. A task is
 * *convicted* when it has been at as many crashes as its budget allows, at more than any other that was there. Before it comes
 * to that, at its last chance, it is run apart: beside no other suspect, so that the next crash convicts or clears it. A
 * conviction explains the crashes that the task was at, and clears the others who were there.
 */
import { MAX_COUNT } from "../task/counts.ts";

export interface Crowd {
  /** How many tasks the process was running. */
  readonly running: number;
  /** The most earlier crashes that one of them had been at… */
  readonly most: number;
  /** …and how many of them had been at so many. */
  readonly withMost: number;
}

/**
 * Any of so many tasks may have ended a runner. If there are several, none of them is convicted of it. In the runner itself nobody had been at a
 * crash before: a task that has been at one gets a fresh runner to itself. Of those that ran beside it in its worker, where memory that is shared
 * ran out, some may have been. But which of them grew is not known, and who was at most crashes may only have been the largest.
 */
export function crowdInRunner(tasks: number): Crowd {
  return { running: tasks, most: 0, withMost: tasks };
}

export interface CrashRecord {
  /** Crashes that it was charged with: it was alone. */
  readonly crashes: number;
  /** Crashes that it was at together with others. */
  readonly suspicion: number;
}

export type Share = "charged" | "suspected" | "cleared";

export interface Blame {
  readonly share: Share;
  /** All crashes that it has been at, this one included unless it is cleared of it. */
  readonly presences: number;
  /** No other that was there has been at as many. */
  readonly standsOut: boolean;
}

/** All crashes that it has been at. Counted as far as `crowd_of` counts, with which it is compared. */
export function presencesOf({ crashes, suspicion }: CrashRecord): number {
  return Math.min(crashes + suspicion, MAX_COUNT);
}

export function blameOn(task: CrashRecord, crowd: Crowd): Blame {
  const earlier = presencesOf(task);
  const isAlone = crowd.running <= 1;
  return {
    share: isAlone ? "charged" : "suspected",
    presences: earlier + 1,
    standsOut: isAlone || (earlier === crowd.most && crowd.withMost === 1),
  };
}

/** A process that was told to go, or was taken down for another reason, says nothing about its tasks. */
export function noBlameOn(task: CrashRecord): Blame {
  return { share: "cleared", presences: presencesOf(task), standsOut: false };
}

export function isConvicted(blame: Blame, crashBudget: number): boolean {
  return blame.share !== "cleared" && blame.standsOut && blame.presences >= crashBudget;
}

/** Its next crash could convict it. */
export function isAtItsLastChance(presences: number, crashBudget: number): boolean {
  return presences > 0 && presences + 1 >= crashBudget;
}

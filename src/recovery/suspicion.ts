/**
 * Which of the tasks that were there when a process died may have killed it. Pure.
 *
 * Whoever ran alone is *charged*. Of several, all are *suspected*: that costs nothing, but is remembered. A task is
 * *convicted* when it has been at as many crashes as its budget allows, at more than any other that was there. Before it comes
 * to that, at its last chance, it is run apart: beside no other suspect, so that the next crash convicts or clears it. A
 * conviction explains the crashes that the task was at, and clears the others who were there.
 *
 * The words for who else was there:
 *
 *   suspects     the tasks that may have caused a crash, wherever they ran
 *   crowd        how many suspects there are, and at how many crashes they have been before
 *   company      of a runner that was killed for shared memory: who was at work elsewhere in its worker (worker/company.ts)
 *   sharers      of a replica that was killed for shared memory: the other replicas within that limit (`sharedWith` in the record of a death)
 *   strangers    processes that are none of ours, within the same limit: a suspect that nobody can name (strangers.ts)
 *   bystanders   suspects of a crash that is explained: they are cleared
 *   inRunner, inWorker, withinLimit   of the other suspects, those in the same runner, in the same worker, in any worker within the same limit;
 *                counted for people, in errors and post-mortems
 *   neighbours   replicas on the same machine that were there, for the probable cause of a death: nobody is blamed by it
 */

import { MAX_COUNT } from "../task/counts.ts";
import type { DeathRecord } from "../task/death.ts";
import type { ReplicaId } from "../task/ids.ts";
import { isForSharedMemory } from "./strangers.ts";

export interface Crowd {
  /** How many suspects there are. */
  readonly suspects: number;
  /** The most earlier crashes that one of them had been at… */
  readonly most: number;
  /** …and how many of them had been at so many. */
  readonly withMost: number;
  /** It may also have been a process that is none of ours (see strangers.ts). Then nobody is charged or convicted, however few were there. */
  readonly hasStrangers?: boolean;
}

/**
 * Of the suspects of a runner's end. It is not asked at how many crashes each of them has been. In the runner itself nobody has been at one: a task that
 * has been gets a fresh runner to itself. Elsewhere in the worker, where shared memory ran out, a task that was at many crashes may only have been the
 * largest. So all are counted as equal: where there are several, nobody is convicted.
 */
export function crowdAtRunner(suspects: number, hasStrangers = false): Crowd {
  return { suspects, most: 0, withMost: suspects, hasStrangers };
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
  const isAlone = crowd.suspects <= 1 && !crowd.hasStrangers;
  return {
    share: isAlone ? "charged" : "suspected",
    presences: earlier + 1,
    standsOut: isAlone || (!crowd.hasStrangers && earlier === crowd.most && crowd.withMost === 1),
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

/** Whose a death may be as well: where it was killed for memory that it shared with others, and that it did not fill by itself. */
export function sharersOf(death: DeathRecord): readonly ReplicaId[] {
  return isForSharedMemory(death) ? ((death.sharedWith ?? []) as readonly ReplicaId[]) : [];
}

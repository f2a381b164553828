/**
 * When those who could run the services of the cluster ask whether they must. Pure.
 *
 * One process runs them, each at its interval. The others wait in line. The first asks when the most frequent service is a quarter of its interval late,
 * the second one interval later, and so on. So one that is gone is replaced in time, even if those behind it are gone too, and few questions are
 * asked. Far back in the line the place no longer matters: each asks once within the time that a service may be late.
 *
 * Whoever has the most frequent service stands in no line. One that has only others stands there too: the most frequent one must not wait until those are due.
 */
import { PROFILES } from "../config/recovery-options.ts";

/** A service is late by this share of its interval before the next in line asks. */
const LATE = 0.25;
/** Nobody counts further back than this. */
const MOST_PLACES = 12;
/** A run may meet a busy moment, and another may have to take over: three intervals, and never less than three seconds. */
const LEAST_PATIENCE_MS = 3_000;

export interface Standby {
  /** 1 is the next in line. */
  readonly place: number;
  /** How long ago the most frequent service was begun. Null where it never was. */
  readonly agoMs: number | null;
}

/** How late a service may be before something is wrong. */
export function patienceMs(everyMs: number): number {
  return Math.max(LEAST_PATIENCE_MS, 3 * everyMs);
}

/** For people: the next run has begun by then, if all goes well. */
export function nextRunWithinMs(everyMs: number): number {
  return (1 + LATE) * everyMs;
}

/** From this place on, all ask equally seldom. */
export function placesInLine(everyMs: number): number {
  return Math.min(MOST_PLACES, Math.max(1, Math.floor(patienceMs(everyMs) / everyMs)));
}

/** Others may run it from here on: whoever ran it last did not do so in time. */
export function takeoverFromMs(everyMs: number): number {
  return everyMs * (1 + LATE / 2);
}

/**
 * What is urgent is run at once by a process that starts, unless somebody does at this moment. It does not wait for its own interval: whoever ran it last
 * may have had a shorter one, and be gone. A thousand that start together still run it no more often than one with the shortest usual interval.
 */
export function startUpFromMs(everyMs: number): number {
  return takeoverFromMs(Math.min(everyMs, PROFILES.fast.checkMs));
}

/** How long one that was told its place waits before it asks again. `random`: from 0 to 1. */
export function pauseInLineMs({ place, agoMs }: Standby, everyMs: number, random: number): number {
  // Spread, so that those at the end of the line do not all come at once.
  if (place >= placesInLine(everyMs)) return patienceMs(everyMs) * (0.75 + 0.25 * random);
  const dueMs = (Math.max(1, place) + LATE) * everyMs;
  const passedMs = Math.max(0, agoMs ?? 0);
  // If it is late already, somebody else is at it at this moment, or nobody can. Nothing is gained by asking at once.
  return passedMs < dueMs ? dueMs - passedMs : dueMs;
}

/**
 * Runs begin one interval apart. After a slow run, the pause is at least half an interval. After one that failed it is so long that the next in line comes
 * first: perhaps the service fails only here. It is too short for a gap in which nobody listened.
 */
export function pauseAfterRunMs(
  { tookMs, hasFailed }: { tookMs: number; hasFailed: boolean },
  everyMs: number,
): number {
  const apartMs = hasFailed ? everyMs * (1 + LATE + 0.15) : everyMs;
  return Math.max(everyMs / 2, apartMs - Math.max(0, tookMs));
}

/** A service that this process had last. */
export interface Held {
  /** At this moment, here. Its end wakes whoever waits. */
  readonly isRunning: boolean;
  /** It is due and was asked for, and it is not running: somebody has locked its row. */
  readonly wasInVain: boolean;
  /** Until it should run again. */
  readonly dueInMs: number;
  readonly everyMs: number;
}

/** How long one that has turns waits before it asks again: until the next of them is due, and in time to go on holding those that are under way. */
export function pauseOfHolderMs(held: readonly Held[], holdMs: number): number {
  const pauseMs = ({ isRunning, wasInVain, dueInMs, everyMs }: Held) => {
    if (isRunning) return holdMs / 3;
    return wasInVain ? everyMs * LATE : Math.max(0, dueInMs);
  };
  return Math.min(...held.map(pauseMs));
}

/** How long until one asks again: in time for what it has, and for its place in line. `standby`: undefined for whoever has the most frequent service. */
export function pauseToAskMs(
  { held, standby }: { held: readonly Held[]; standby: Standby | undefined },
  { everyMs, holdMs, random }: { everyMs: number; holdMs: number; random: number },
): number {
  const inLineMs = standby ? pauseInLineMs(standby, everyMs, random) : Number.POSITIVE_INFINITY;
  return Math.min(inLineMs, pauseOfHolderMs(held, holdMs));
}

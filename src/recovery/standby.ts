/**
 * When those who could sweep ask whether they must. Pure.
 *
 * One replica sweeps, once every check interval. The others wait in line. The first asks when a sweep is a quarter of an interval late, the
 * second one interval later, and so on. So a dead sweeper is replaced in time, even if those behind it died too, and few questions are asked.
 * Far back in the line the place no longer matters: each asks once within the time that a sweep may be late.
 */
import { PROFILES } from "../config/recovery-options.ts";
import { sweepPatienceMs } from "./sweeping.ts";

/** A sweep is late by this share of its interval before the next in line asks. */
const LATE = 0.25;
/** Nobody counts further back than this. */
const MOST_PLACES = 12;

export interface Standby {
  /** 1 is the next in line. */
  readonly place: number;
  /** Null where nobody has ever swept. */
  readonly sweptAgoMs: number | null;
}

/** From this place on, all ask equally seldom. */
export function placesInLine(checkMs: number): number {
  return Math.min(MOST_PLACES, Math.max(1, Math.floor(sweepPatienceMs(checkMs) / checkMs)));
}

/** Others may sweep from here on: whoever swept last did not do so in time. */
export function takeoverFromMs(checkMs: number): number {
  return checkMs * (1 + LATE / 2);
}

/**
 * One that starts sweeps at once, unless somebody does at this moment. It does not wait for its own interval: whoever swept last may have had a
 * shorter one, and be gone. A thousand that start together still sweep no more often than one with the shortest usual interval.
 */
export function startUpFromMs(checkMs: number): number {
  return takeoverFromMs(Math.min(checkMs, PROFILES.fast.checkMs));
}

/** How long one that was told its place waits before it asks again. `random`: from 0 to 1. */
export function pauseInLineMs({ place, sweptAgoMs }: Standby, checkMs: number, random: number): number {
  // Spread, so that those at the end of the line do not all come at once.
  if (place >= placesInLine(checkMs)) return sweepPatienceMs(checkMs) * (0.75 + 0.25 * random);
  const dueMs = (Math.max(1, place) + LATE) * checkMs;
  const agoMs = Math.max(0, sweptAgoMs ?? 0);
  // If a sweep is late already, somebody else sweeps at this moment, or nobody can. Nothing is gained by asking at once.
  return agoMs < dueMs ? dueMs - agoMs : dueMs;
}

/** Sweeps begin one interval apart. After a slow sweep, the pause is at least half an interval. */
export function pauseBetweenSweepsMs(tookMs: number, checkMs: number): number {
  return Math.max(checkMs / 2, checkMs - Math.max(0, tookMs));
}

/** How many tasks to ask for now. Pure. */
import type { WorkSettings } from "./options.ts";
import { largestRound } from "./round-plan.ts";
import type { Slots } from "./slots.ts";

export interface Demand {
  /** How many start at once. */
  readonly run: number;
  /** How many more may wait in hand for a slot. */
  readonly reserve: number;
  /** How many more are claimed ahead. */
  readonly prefetch: number;
  /** For each of the queues, how many more; null for any number. */
  readonly room: readonly (number | null)[] | undefined;
}

export const NO_DEMAND: Demand = { run: 0, reserve: 0, prefetch: 0, room: undefined };

export function demandOf(state: {
  settings: WorkSettings;
  slots: Slots;
  /** Claimed ahead already. */
  prefetched: number;
  /** On its way already. */
  asked: Demand;
  /** How many may wait in hand for a slot, and how many do. */
  reserve: number;
  reserved: number;
  /** Nothing else will be asked for before the answer is here. */
  isAlone: boolean;
  largestBatch: number;
  /** Some tasks need a runner, which may not be free when a slot is: they are started when there is one. */
  hasRunners: boolean;
}): Demand {
  const { settings, slots, prefetched, reserved, asked, isAlone, largestBatch, hasRunners } = state;
  const { concurrency, prefetch: ahead } = settings;
  const free = Math.max(0, slots.free - asked.run);
  // Members of a batch share a slot, so they are claimed ahead and started together. And while some wait that were
  // claimed ahead, it is they who get the free slots, in their order.
  const startsLater = largestBatch > 1 || hasRunners || prefetched + asked.prefetch > 0;
  const reserve = isAlone || startsLater || ahead > 0 ? 0 : state.reserve;
  const room = reserve > 0 ? inSteps(reserve, slots.free + reserve - reserved - asked.run - asked.reserve) : free;
  const run = startsLater ? 0 : Math.min(free, room, isAlone || reserve > 0 ? room : largestRound(concurrency));
  const stock = ahead + (startsLater ? free * largestBatch : 0);
  const more = inSteps(stock, stock - prefetched - asked.prefetch);
  const waiting = reserve > 0 ? room - run : 0;
  return { run, reserve: waiting, prefetch: more, room: roomIn(settings, slots, run + waiting + more) };
}

/** In steps of half the stock, not one by one. */
function inSteps(stock: number, missing: number): number {
  return missing * 2 < stock ? 0 : missing;
}

/** In all. */
export function totalOf({ run, reserve, prefetch }: Demand): number {
  return run + reserve + prefetch;
}

/**
 * Where there was nothing left to be had, for as many as may follow those that have ended, one behind a key for each: looking for
 * more would be a walk over everything that was moved out of the way.
 */
export function afterEnds(room: Demand, ended: number): Demand {
  return ended === 0 ? room : { ...room, run: Math.min(room.run, ended) };
}

/** Where nothing is looked for: no more than may follow those that have ended. */
export function onlyFollowing(room: Demand, ended: number): Demand {
  const run = Math.min(room.run, ended);
  return { ...room, run, prefetch: Math.min(room.prefetch, ended - run) };
}

function roomIn({ queues, queueLimits }: WorkSettings, slots: Slots, total: number): (number | null)[] | undefined {
  return queues?.map((queue) => (queueLimits.has(queue) ? Math.min(total, Math.max(0, slots.freeIn(queue))) : null));
}

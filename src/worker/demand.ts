/** How many tasks to ask for now. Pure. */
import type { Demand } from "./claimer.ts";
import type { WorkSettings } from "./options.ts";
import { prefetchSize } from "./prefetch.ts";
import type { Slots } from "./slots.ts";

export const NO_DEMAND: Demand = { run: 0, prefetch: 0, room: undefined };

export function demandOf(state: {
  settings: WorkSettings;
  slots: Slots;
  /** Claimed ahead already. */
  prefetched: number;
  averageMs: number | undefined;
  largestBatch: number;
  /** Some tasks need a runner, which may not be free when a slot is: they are started when there is one. */
  hasRunners: boolean;
}): Demand {
  const { settings, slots, prefetched, largestBatch, hasRunners } = state;
  const { concurrency, prefetch } = settings;
  const ahead = prefetch === "auto" ? prefetchSize({ concurrency, averageMs: state.averageMs }) : prefetch;
  const free = Math.max(0, slots.free);
  // Members of a batch share a slot, so they are claimed ahead and started together. And while some wait that were
  // claimed ahead, it is they who get the free slots, in their order.
  const run = largestBatch > 1 || hasRunners || prefetched > 0 ? 0 : free;
  const stock = ahead + (run > 0 ? 0 : free * largestBatch);
  // In steps of half the stock, not one by one.
  const more = prefetched * 2 > stock ? 0 : stock - prefetched;
  return { run, prefetch: more, room: roomIn(settings, slots, run + more) };
}

function roomIn({ queues, queueLimits }: WorkSettings, slots: Slots, total: number): (number | null)[] | undefined {
  return queues?.map((queue) => (queueLimits.has(queue) ? Math.min(total, Math.max(0, slots.freeIn(queue))) : null));
}

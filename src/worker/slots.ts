/** How many more tasks this replica may run: in all, from each queue that has a limit of its own here, and in its runners. */
import type { RunIn } from "../task/settings.ts";

export class Slots {
  readonly total: number;
  readonly #limits: ReadonlyMap<string, number>;
  readonly #usedByQueue = new Map<string, number>();
  readonly #usedByRunIn = new Map<RunIn, number>();
  /** How many at once may run there; undefined for any number. */
  readonly #limitOf: (runIn: RunIn) => number | undefined;
  #used = 0;

  constructor(
    total: number,
    limits: ReadonlyMap<string, number>,
    limitOf: (runIn: RunIn) => number | undefined = () => undefined,
  ) {
    this.total = total;
    this.#limits = limits;
    this.#limitOf = limitOf;
  }

  get used(): number {
    return this.#used;
  }

  get free(): number {
    return this.total - this.#used;
  }

  /** What this queue may still take, should there be room in all. */
  freeIn(queue: string): number {
    const limit = this.#limits.get(queue);
    return Math.min(
      this.free,
      limit === undefined ? Number.POSITIVE_INFINITY : limit - (this.#usedByQueue.get(queue) ?? 0),
    );
  }

  /** Whether one more may run there, should there be room in all. */
  hasRoomIn(runIn: RunIn): boolean {
    const limit = this.#limitOf(runIn);
    return limit === undefined || (this.#usedByRunIn.get(runIn) ?? 0) < limit;
  }

  take(queue: string, runIn: RunIn = "inline"): void {
    this.#count(queue, runIn, 1);
  }

  give(queue: string, runIn: RunIn = "inline"): void {
    this.#count(queue, runIn, -1);
  }

  #count(queue: string, runIn: RunIn, by: 1 | -1): void {
    this.#used += by;
    if (this.#limits.has(queue)) this.#usedByQueue.set(queue, (this.#usedByQueue.get(queue) ?? 0) + by);
    if (runIn !== "inline") this.#usedByRunIn.set(runIn, (this.#usedByRunIn.get(runIn) ?? 0) + by);
  }
}

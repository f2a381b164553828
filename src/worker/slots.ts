/** How many more tasks this replica may run: in all, and from each queue that has a limit of its own here. */
export class Slots {
  readonly total: number;
  readonly #limits: ReadonlyMap<string, number>;
  readonly #usedByQueue = new Map<string, number>();
  #used = 0;

  constructor(total: number, limits: ReadonlyMap<string, number>) {
    this.total = total;
    this.#limits = limits;
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

  take(queue: string): void {
    this.#used++;
    this.#usedByQueue.set(queue, (this.#usedByQueue.get(queue) ?? 0) + 1);
  }

  give(queue: string): void {
    this.#used--;
    this.#usedByQueue.set(queue, (this.#usedByQueue.get(queue) ?? 0) - 1);
  }
}

/**
 * Tasks in hand that wait a moment for a slot: on record as running, so that nothing is left to do but to call their
 * handlers. Nothing waits here for long: what has become stale is given back.
 */
import type { ClaimedTask } from "../sql/claims.ts";
import type { ReplicaId } from "../task/ids.ts";

/** Claimed in one go. */
export interface Lot {
  readonly tasks: readonly ClaimedTask[];
  readonly under: ReplicaId;
  readonly sinceMs: number;
}

/** Many times what a reserve should last. A process that was paused for longer must not begin what others may have by now. */
export const STALE_AFTER_MS = 250;

export class Reserve {
  #lots: Lot[] = [];
  /** How many of the first lot are gone. */
  #taken = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(lot: Lot): void {
    if (lot.tasks.length === 0) return;
    this.#lots.push(lot);
    this.#size += lot.tasks.length;
  }

  /** The next in order, unless it is stale. */
  take(nowMs: number): ClaimedTask | undefined {
    const [lot] = this.#lots;
    if (!lot || isStale(lot, nowMs)) return undefined;
    const task = lot.tasks[this.#taken++];
    this.#size--;
    if (this.#taken === lot.tasks.length) this.#dropFirst();
    return task;
  }

  takeStale(nowMs: number): Lot[] {
    return this.#takeWhile((lot) => isStale(lot, nowMs));
  }

  takeAll(): Lot[] {
    return this.#takeWhile(() => true);
  }

  tasks(): ClaimedTask[] {
    return this.#lots.flatMap(({ tasks }, index) => tasks.slice(index === 0 ? this.#taken : 0));
  }

  #takeWhile(isWanted: (lot: Lot) => boolean): Lot[] {
    const lots: Lot[] = [];
    for (let [lot] = this.#lots; lot && isWanted(lot); [lot] = this.#lots) {
      const tasks = lot.tasks.slice(this.#taken);
      lots.push({ ...lot, tasks });
      this.#size -= tasks.length;
      this.#dropFirst();
    }
    return lots;
  }

  #dropFirst(): void {
    this.#lots.shift();
    this.#taken = 0;
  }
}

function isStale({ sinceMs }: Lot, nowMs: number): boolean {
  return nowMs - sinceMs >= STALE_AFTER_MS;
}

/**
 * Tasks in hand that wait a moment for a slot: on record as running, so that nothing is left to do but to call their
 * handlers. Nothing waits here for long: what has become stale is given back.
 */
import type { ClaimedTask } from "../sql/claims.ts";
import type { ClaimId, ReplicaId } from "../task/ids.ts";

/** Claimed in one go. */
export interface Lot {
  readonly tasks: readonly ClaimedTask[];
  readonly under: ReplicaId;
  /** From then on others may have been told that it is theirs, or should have had it long ago. */
  readonly staleAtMs: number;
}

/** Many times what a reserve should last. */
export const STALE_AFTER_MS = 250;

export class Reserve {
  #lots: Lot[] = [];
  /** How many of the first lot are gone. */
  #taken = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** When the next of it becomes stale. */
  get staleAtMs(): number {
    return Math.min(...this.#lots.map((lot) => lot.staleAtMs));
  }

  add(lot: Lot): void {
    if (lot.tasks.length === 0) return;
    this.#lots.push(lot);
    this.#size += lot.tasks.length;
  }

  /** The next in order, unless it is stale. */
  take(nowMs: number): ClaimedTask | undefined {
    const [lot] = this.#lots;
    if (!lot || nowMs >= lot.staleAtMs) return undefined;
    const task = lot.tasks[this.#taken++];
    this.#size--;
    if (this.#taken === lot.tasks.length) {
      this.#lots.shift();
      this.#taken = 0;
    }
    return task;
  }

  takeStale(nowMs: number): Lot[] {
    return this.#takeOut((_, lot) => nowMs >= lot.staleAtMs);
  }

  takeThese(claims: ReadonlySet<ClaimId>): Lot[] {
    return this.#takeOut(({ claimId }) => claims.has(claimId));
  }

  takeAll(): Lot[] {
    return this.#takeOut(() => true);
  }

  tasks(): ClaimedTask[] {
    return this.#left().flatMap(({ tasks }) => tasks);
  }

  #takeOut(isWanted: (task: ClaimedTask, lot: Lot) => boolean): Lot[] {
    const parts = (areWanted: boolean) =>
      this.#left()
        .map((lot) => ({ ...lot, tasks: lot.tasks.filter((task) => isWanted(task, lot) === areWanted) }))
        .filter(({ tasks }) => tasks.length > 0);
    const [out, left] = [parts(true), parts(false)];
    this.#lots = left;
    this.#taken = 0;
    this.#size = left.reduce((sum, { tasks }) => sum + tasks.length, 0);
    return out;
  }

  #left(): Lot[] {
    return this.#lots.map((lot, index) => (index === 0 ? { ...lot, tasks: lot.tasks.slice(this.#taken) } : lot));
  }
}

/**
 * The tasks that a replica has in hand: claimed ahead, about to start, in reserve, running, or with an outcome on its way.
 * Knows which may start next; does nothing by itself.
 */
import type { ClaimedTask } from "../sql/claims.ts";
import type { AnyTask } from "../task/define-task.ts";
import type { ClaimId, ClaimOnTask } from "../task/ids.ts";
import { type Execution, isSuspect } from "./execution.ts";
import { Reserve } from "./reserve.ts";
import type { Slots } from "./slots.ts";

interface Prefetched {
  readonly claimed: ClaimedTask;
  readonly sinceMs: number;
}

/** Members of one batch, which share a slot. */
export interface Group {
  readonly task: AnyTask;
  readonly members: readonly ClaimedTask[];
}

export class Hand {
  readonly #tasks: ReadonlyMap<string, AnyTask>;
  readonly #slots: Slots;
  readonly reserve = new Reserve();
  #prefetched: Prefetched[] = [];
  readonly #starting = new Map<ClaimId, ClaimOnTask>();
  readonly #begun = new Begun();
  #finishing = 0;
  readonly #begunCount: { value: number };
  readonly #releasing = new Map<ClaimId, ClaimOnTask>();
  #isOverstocked = false;

  /** `begunCount`: for the heart, which ends the process only for handlers that are at work. */
  constructor(tasks: ReadonlyMap<string, AnyTask>, slots: Slots, begunCount: { value: number } = { value: 0 }) {
    this.#begunCount = begunCount;
    this.#tasks = tasks;
    this.#slots = slots;
  }

  get prefetched(): number {
    return this.#prefetched.length;
  }

  /** How many are running. */
  get running(): number {
    return this.#begun.size - this.#finishing;
  }

  /** Those whose handlers are at work. */
  executions(): Execution[] {
    return this.#begun.all.filter((execution) => !execution.hasEnded);
  }

  /** Those whose handlers have told the worker to stop, until it is on record how they ended. */
  stoppers(): ClaimOnTask[] {
    return this.#begun.all.filter(({ ownStop }) => ownStop !== undefined).map(({ claimed }) => claimed);
  }

  get isEmpty(): boolean {
    return this.running + this.#starting.size + this.#prefetched.length + this.reserve.size === 0;
  }

  get size(): number {
    return this.#prefetched.length + this.#starting.size + this.reserve.size + this.#begun.size;
  }

  /** The claims of which code has run, or may have. */
  begun(): ClaimOnTask[] {
    return this.#begun.all.map(({ claimed }) => claimed);
  }

  /** Some waited for too long and were given back, and nothing has ended since: they must not be claimed ahead again at once. */
  get isOverstocked(): boolean {
    return this.#isOverstocked;
  }

  /** Every claim this replica knows it has. */
  claims(): ClaimOnTask[] {
    return [
      ...this.#prefetched.map(({ claimed }) => claimed),
      ...this.#starting.values(),
      ...this.reserve.tasks(),
      ...this.begun(),
      ...this.#releasing.values(),
    ];
  }

  addPrefetched(tasks: readonly ClaimedTask[], nowMs: number): void {
    for (const claimed of tasks) this.#prefetched.push({ claimed, sinceMs: nowMs });
  }

  /** The claimed tasks for which there is a slot now, taken out in order, grouped where they run as one batch. */
  takeStartable(): Group[] {
    const groups: { task: AnyTask; members: ClaimedTask[] }[] = [];
    const open = new Map<string, { task: AnyTask; members: ClaimedTask[] }>();
    const left: Prefetched[] = [];
    for (const entry of this.#prefetched) {
      const { claimed } = entry;
      const task = this.#tasks.get(claimed.name) as AnyTask;
      const kind = `${claimed.name} ${claimed.queue}`;
      const isAlone = isSuspect(claimed);
      const group = isAlone ? undefined : open.get(kind);
      if (group && group.members.length < task.batchSize) group.members.push(claimed);
      else if (this.#slots.freeIn(claimed.queue) > 0 && this.#slots.hasRoomIn(task.settings.runIn)) {
        this.#slots.take(claimed.queue, task.settings.runIn);
        const fresh = { task, members: [claimed] };
        groups.push(fresh);
        if (!isAlone) open.set(kind, fresh);
      } else {
        left.push(entry);
        continue;
      }
      this.#starting.set(claimed.claimId, claimed);
    }
    this.#prefetched = left;
    return groups;
  }

  /** To be given back: all of those claimed ahead, or only those that have waited since before that time. */
  takePrefetched(beforeMs: number = Number.POSITIVE_INFINITY): ClaimedTask[] {
    const taken = this.#prefetched.filter(({ sinceMs }) => sinceMs < beforeMs);
    this.#prefetched = this.#prefetched.filter(({ sinceMs }) => sinceMs >= beforeMs);
    if (taken.length > 0) this.#isOverstocked = true;
    return taken.map(({ claimed }) => claimed);
  }

  /** All that has not begun, to be given back. */
  takeUnbegun(): ClaimedTask[] {
    return [...this.takePrefetched(), ...this.reserve.takeAll().flatMap(({ tasks }) => tasks)];
  }

  /** These are being given back. Known until they are: they must not be taken for claims whose reply was lost. */
  releasing(tasks: readonly ClaimedTask[]): readonly ClaimOnTask[] {
    for (const task of tasks) this.#releasing.set(task.claimId, task);
    return tasks;
  }

  released(claims: readonly ClaimOnTask[]): void {
    for (const { claimId } of claims) this.#releasing.delete(claimId);
  }

  dropStarting(claims: readonly ClaimOnTask[]): void {
    for (const { claimId } of claims) this.#starting.delete(claimId);
  }

  begin(execution: Execution): void {
    if (this.#starting.size > 0) this.#starting.delete(execution.claimed.claimId);
    this.#begun.add(execution);
    this.#begunCount.value = this.running;
  }

  /** The handler is done with; the claim stays known until its outcome is written. */
  finishing(): void {
    this.#isOverstocked = false;
    this.#finishing++;
    this.#begunCount.value = this.running;
  }

  finished(execution: Execution): void {
    this.#finishing--;
    this.#begun.remove(execution);
    this.#begunCount.value = this.running;
  }
}

/**
 * What is running, or has ended with an outcome on its way. A list in which each knows its place, since a Map that takes and
 * loses thousands of entries a second is a trap: each table that it outgrows leads on to the next one, so that once one of them is
 * old, the garbage collector keeps all that ever went through it until it cleans up the old as well.
 */
class Begun {
  readonly #executions: Execution[] = [];

  get all(): readonly Execution[] {
    return this.#executions;
  }

  get size(): number {
    return this.#executions.length;
  }

  add(execution: Execution): void {
    execution.place = this.#executions.push(execution) - 1;
  }

  /** The last one takes its place. */
  remove(execution: Execution): void {
    const last = this.#executions.pop();
    if (!last || last === execution) return;
    this.#executions[execution.place] = last;
    last.place = execution.place;
  }
}

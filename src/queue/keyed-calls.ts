/**
 * Calls with a unique key, or with an id that their caller chose. Somebody else's transaction may hold that key or id for as long as it is open, and
 * only calls with the same one wait for it: the others share statements that wait for a moment, and whoever they would wait for is put apart.
 */
import type { Database } from "../database/database.ts";
import { inHalves } from "../database/in-halves.ts";
import { isLocked, isTransient } from "../database/transient.ts";
import { Batcher } from "./batcher.ts";
import { patiently } from "./patiently.ts";
import { type EnqueueAnswer, type NewTask, put } from "./put-tasks.ts";
import { putSharing, SHARED_BATCH } from "./shared-calls.ts";
import { Turns } from "./turns.ts";

/** How long a statement that is shared waits for a lock. */
const BRIEF_MS = 100;
const TINY_MS = 5;
/** Those who are known to wait ask for longer, a few at a time. */
const WAITING = {
  atOnce: 2,
  patienceMs: { shortest: 50, longest: 500 },
  everybodyWithinMs: 2_000,
  lonelyPatienceMs: 5_000,
};
const MAX_UNDER_WAY = 2;

type Calls = Batcher<NewTask, EnqueueAnswer>;
type Answer = EnqueueAnswer | Promise<EnqueueAnswer>;

export class KeyedCalls {
  readonly #database: Database;
  readonly #shared: Calls;
  /** By what they wait for. */
  readonly #held = new Map<string, Calls>();
  readonly #turns = new Turns(WAITING);
  #findingOut: Promise<unknown> = Promise.resolve();

  constructor(database: Database) {
    this.#database = database;
    this.#shared = new Batcher({
      maxItems: SHARED_BATCH,
      maxUnderWay: MAX_UNDER_WAY,
      run: (tasks) => this.#share(tasks),
    });
  }

  add(task: NewTask): Promise<EnqueueAnswer> {
    return this.#held.has(keyOf(task)) ? this.#wait(task) : this.#shared.add(task);
  }

  /**
   * For a call with many tasks, which has statements of its own. Each try waits for locks at least as long as the try before it took. `again`: an
   * earlier try may have done it, and only the reply was lost. That try may also be the one that still holds the keys.
   */
  async whenFree<T>(work: (patienceMs: number, again: boolean) => Promise<T>): Promise<T> {
    let tookMs = 0;
    let mayBeDone = false;
    const attempt = async (patienceMs: number) => {
      const beganAt = performance.now();
      const workAgain = (again: boolean) => {
        mayBeDone ||= again;
        return work(Math.ceil(Math.max(patienceMs, tookMs)), mayBeDone);
      };
      try {
        return await patiently(workAgain, isPassing);
      } finally {
        tookMs = performance.now() - beganAt;
      }
    };
    return attempt(BRIEF_MS).catch((error) => {
      if (!isLocked(error)) throw error;
      return this.#turns.untilFree(attempt);
    });
  }

  /** Every call that was made has been answered. */
  async idle(): Promise<void> {
    await this.#shared.idle();
    await Promise.all([...this.#held.values()].map((calls) => calls.idle()));
  }

  /** From now on nobody waits for somebody else's key or id: who does is told that this was closed. */
  giveUpWaiting(): void {
    this.#turns.close();
  }

  /** Calls with the same key stay together. If the statement waits for a lock, it is found out which of them do. */
  async #share(tasks: readonly NewTask[]): Promise<readonly Answer[]> {
    const answers = new Map<NewTask, Answer>();
    const groups = new Map<string, NewTask[]>();
    for (const task of tasks) {
      const key = keyOf(task);
      const group = groups.get(key);
      if (this.#held.has(key)) answers.set(task, later(this.#wait(task)));
      else if (group) group.push(task);
      else groups.set(key, [task]);
    }
    const together = [...groups.values()];
    const some = together.flat();
    const found = await this.#putSharing(some, BRIEF_MS).catch((error: unknown) =>
      isLocked(error) ? this.#findOut(together) : some.map(() => later(Promise.reject(error))),
    );
    for (const [index, task] of some.entries()) answers.set(task, found[index]);
    return tasks.map((task) => answers.get(task));
  }

  /**
   * Makes the calls in halves, until those whose key or id somebody holds are alone; these wait. The others are answered as soon as they are in.
   * Statements hardly wait here: with many keys that are held, each wait would be one for all others.
   */
  #findOut(groups: readonly NewTask[][]): readonly Promise<EnqueueAnswer>[] {
    const told = new Map(groups.flat().map((task) => [task, deferred<EnqueueAnswer>()]));
    const putTogether = async (part: readonly NewTask[][]) => {
      const some = part.flat();
      const found = await this.#putSharing(some, TINY_MS);
      for (const [index, task] of some.entries()) told.get(task)?.resolve(found[index]);
      return [];
    };
    const putApart = async (group: readonly NewTask[]) => {
      for (const task of group) told.get(task)?.resolve(this.#wait(task));
      return [];
    };
    const findOut = () =>
      inHalves(groups, putTogether, putApart, isLocked).catch((error: unknown) => {
        for (const { reject } of told.values()) reject(error);
      });
    // One after the other: those who wait for a lock take no more than one connection.
    this.#findingOut = this.#findingOut.then(findOut);
    return [...told.values()].map(({ promise }) => later(promise));
  }

  /** Queues the call behind others with the same key; makes that queue if there is none. */
  #wait(task: NewTask): Promise<EnqueueAnswer> {
    const key = keyOf(task);
    const waiting = this.#held.get(key);
    if (waiting) return waiting.add(task);
    const run = (tasks: readonly NewTask[]) =>
      this.#turns.untilFree((patienceMs) => this.#putSharing(tasks, patienceMs));
    const calls: Calls = new Batcher({ maxItems: SHARED_BATCH, maxUnderWay: 1, run });
    this.#held.set(key, calls);
    const answer = calls.add(task);
    void this.#forgetWhenIdle(key, calls);
    return answer;
  }

  async #forgetWhenIdle(key: string, calls: Calls): Promise<void> {
    do await calls.idle();
    while (calls.size > 0);
    this.#held.delete(key);
  }

  async #putSharing(tasks: readonly NewTask[], patienceMs: number): Promise<readonly Answer[]> {
    const how = { refuseAll: false, alone: true, patienceMs };
    const putThem = (some: readonly NewTask[], again: boolean) => put(this.#database, some, { ...how, again });
    const answers = await putSharing(tasks, putThem, isPassing);
    return answers.map((answer, index) =>
      answer instanceof Promise ? later(this.#waitIfLocked(tasks[index] as NewTask, answer)) : answer,
    );
  }

  async #waitIfLocked(task: NewTask, answer: Promise<EnqueueAnswer>): Promise<EnqueueAnswer> {
    return answer.catch((error: unknown) => {
      if (!isLocked(error)) throw error;
      return this.#wait(task);
    });
  }
}

function deferred<T>() {
  let resolve: (answer: T | Promise<T>) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<T>((...settle) => ([resolve, reject] = settle));
  return { promise, resolve, reject };
}

/** An answer that may fail before the others are known, and whoever it is for listens only then. */
function later(answer: Promise<EnqueueAnswer>): Promise<EnqueueAnswer> {
  answer.catch(() => {});
  return answer;
}

/** What somebody else may hold. */
function keyOf({ id, terms: { name, uniqueKey } }: NewTask): string {
  return uniqueKey === undefined ? id : `${name} ${uniqueKey}`;
}

/** All but a lock, which is waited for in another way. */
function isPassing(error: unknown): boolean {
  return isTransient(error) && !isLocked(error);
}

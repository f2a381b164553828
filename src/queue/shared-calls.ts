/** Single calls that wait for nobody: they have no key and no id that somebody else may be putting in. */
import type { Database } from "../database/database.ts";
import { isCancelled, isTransient } from "../database/transient.ts";
import { Batcher } from "./batcher.ts";
import { patiently } from "./patiently.ts";
import { type Answers, type EnqueueAnswer, type NewTask, put } from "./put-tasks.ts";

/** How many calls share a statement. */
export const SHARED_BATCH = 1_000;

export class SharedCalls {
  readonly #batcher: Batcher<NewTask, EnqueueAnswer>;

  constructor(database: Database) {
    const how = { refuseAll: false, alone: true, promptly: database };
    this.#batcher = new Batcher({
      maxItems: SHARED_BATCH,
      maxUnderWay: 4,
      run: (tasks) => putSharing(tasks, (some, again) => put(database, some, { ...how, again })),
    });
  }

  add(task: NewTask): Promise<EnqueueAnswer> {
    return this.#batcher.add(task);
  }

  /** Every call that was made has been answered. */
  idle(): Promise<void> {
    return this.#batcher.idle();
  }
}

/** One statement for callers who know nothing of each other: if it fails, each is tried alone and gets its own error. */
export async function putSharing(
  tasks: readonly NewTask[],
  putThem: (tasks: readonly NewTask[], again: boolean) => Promise<Answers>,
  isPassing: (error: unknown) => boolean = isTransient,
): Promise<readonly (EnqueueAnswer | Promise<EnqueueAnswer>)[]> {
  try {
    const answers = await patiently((again) => putThem(tasks, again), isPassing);
    return tasks.map((_, index) => answers.get(index));
  } catch (error) {
    // Cancelled when others could see it already, a task is there; tried again under its id, that is known.
    if (isTransient(error) || (tasks.length === 1 && !isCancelled(error))) throw error;
    const putAlone = (task: NewTask) => patiently(() => putThem([task], true), isPassing);
    return tasks.map((task) => putAlone(task).then((answers) => answers.get(0)));
  }
}

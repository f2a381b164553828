/** Tasks that were checked, on their way into the database: which statement takes them, and what is to be said of them. */
import type { Database, Store } from "../database/database.ts";
import { enqueueKeyed, groupsOf, insertTaskPromptly, insertTasks, type Patience } from "../sql/enqueue.ts";
import type { TaskId } from "../task/ids.ts";
import type { Terms } from "./enqueue-options.ts";
import { asEnqueueError } from "./enqueue-refusals.ts";

/** What of one call goes into one statement: so many tasks, or fewer where they are long. */
const MANY_BATCH = 10_000;
const MANY_CHARACTERS = 16 * 1_048_576;

/** A task that was checked and has its id. */
export interface NewTask {
  readonly id: TaskId;
  readonly input: string;
  readonly terms: Terms;
}

export interface How extends Patience {
  /** Whether a refused duplicate refuses the whole batch. */
  readonly refuseAll: boolean;
  readonly alone: boolean;
  /** For single calls, the database itself. A worker that such a call wakes need not wait until the task is durable; only the caller waits. */
  readonly promptly?: Database;
  /** These ids may have been sent before. */
  readonly again: boolean;
}

/** Nothing, where a task was simply enqueued. */
export type EnqueueAnswer = { taskId: TaskId; outcome: "kept" | "replaced" | "refused" } | undefined;

/** What is to be said of some of the tasks, by their place. */
export type Answers = ReadonlyMap<number, NonNullable<EnqueueAnswer>>;

/** Nothing about it has to be looked up: no key that may be taken, no id that may have been used before. */
export function isPlain(terms: Terms): boolean {
  return terms.uniqueKey === undefined && terms.id === undefined;
}

export function fitsOneStatement(texts: readonly string[]): boolean {
  let characters = 0;
  for (const text of texts) characters += text.length;
  return texts.length <= MANY_BATCH && characters <= MANY_CHARACTERS;
}

export function slicesOf(tasks: readonly NewTask[]): readonly (readonly NewTask[])[] {
  const slices: NewTask[][] = [];
  let slice: NewTask[] = [];
  let characters = 0;
  let terms: Terms | undefined;
  for (const task of tasks) {
    // Terms of their own may be long, too: their metadata.
    const more = task.input.length + (task.terms === terms ? 0 : task.terms.json.length);
    if (slice.length === 0 || slice.length === MANY_BATCH || characters + more > MANY_CHARACTERS) {
      slice = [];
      slices.push(slice);
      characters = 0;
    }
    slice.push(task);
    characters += more;
    terms = task.terms;
  }
  return slices;
}

export async function putAll(
  store: Store,
  slices: readonly (readonly NewTask[])[],
  how: Omit<How, "refuseAll">,
): Promise<TaskId[]> {
  const ids: TaskId[] = [];
  for (const slice of slices) {
    const answers = await put(store, slice, { ...how, refuseAll: true });
    for (const task of slice) ids.push(task.id);
    for (const [place, answer] of answers) ids[ids.length - slice.length + place] = answer.taskId;
  }
  return ids;
}

export async function put(store: Store, tasks: readonly NewTask[], how: How): Promise<Answers> {
  const answers = new Map<number, NonNullable<EnqueueAnswer>>();
  if (tasks.some((task) => task.terms.uniqueKey !== undefined)) {
    for (const { ordinal, taskId, outcome } of await enqueueKeyed(store, tasks, how).catch(refuse))
      answers.set(Number(ordinal) - 1, { taskId: taskId as TaskId, outcome });
    return answers;
  }
  const [task] = tasks;
  if (how.promptly && !how.again && tasks.length === 1 && task?.terms.bare) {
    await insertTaskPromptly(how.promptly, { ...task.terms.bare, id: task.id, input: task.input }).catch(refuse);
    return answers;
  }
  const fresh = !how.again && tasks.every(({ terms }) => isPlain(terms));
  await insertTasks(store, groupsOf(tasks), { ...how, fresh }).catch(refuse);
  return answers;
}

export function refuse(error: unknown): never {
  throw asEnqueueError(error);
}

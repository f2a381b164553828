/** Putting tasks in: checked whole before anything is written, one statement per batch, repeatable after a lost reply. */
import { Problems } from "../config/problems.ts";
import { createBackoff } from "../database/backoff.ts";
import type { Database, Store } from "../database/database.ts";
import { storeInTransaction } from "../database/transaction-store.ts";
import { isTransient } from "../database/transient.ts";
import { enqueueTasks } from "../sql/enqueue.ts";
import type { Transaction } from "../task/context.ts";
import type { AnyTask } from "../task/define-task.ts";
import { DuplicateTaskError } from "../task/errors.ts";
import { type TaskId, TaskIds } from "../task/ids.ts";
import { parseInput } from "../task/input.ts";
import { Batcher } from "./batcher.ts";
import { type NewTask, toNewTask } from "./enqueue-options.ts";
import { asEnqueueError } from "./enqueue-refusals.ts";

const BATCH = 1_000;
/** How long a call goes on trying while the database is away; after that the caller is told. */
const PATIENCE_MS = 10_000;

export interface EnqueueRequest {
  readonly task: AnyTask;
  readonly input: unknown;
  readonly options: unknown;
}

export class Enqueuer {
  readonly #database: Database;
  readonly #limitBytes: number;
  readonly #ids = new TaskIds();
  readonly #batcher: Batcher<NewTask, EnqueueAnswer>;

  constructor(database: Database, options: { inputLimitBytes: number }) {
    this.#database = database;
    this.#limitBytes = options.inputLimitBytes;
    this.#batcher = new Batcher({ maxItems: BATCH, maxUnderWay: 4, run: (tasks) => this.#putSharing(tasks) });
  }

  async enqueue(request: EnqueueRequest): Promise<TaskId> {
    const problems = new Problems();
    const task = await this.#check(request, "", problems);
    problems.throwIfAny(`Task "${request.task.name}" was not enqueued: it`);
    const answer = task.tx
      ? (await put(storeInTransaction(task.tx, this.#database.schema), [task], { refuseAll: false, alone: false }))[0]
      : await this.#batcher.add(task);
    if (!answer) return task.id;
    if (answer.outcome === "refused") throw new DuplicateTaskError(task.name, task.uniqueKey ?? "", answer.taskId);
    return answer.taskId;
  }

  /** All or nothing: one transaction, whatever the number. The ids come back in the order of the requests. */
  async enqueueMany(requests: readonly EnqueueRequest[], tx: Transaction | undefined): Promise<TaskId[]> {
    const problems = new Problems();
    const tasks: NewTask[] = [];
    for (const [index, request] of requests.entries()) tasks.push(await this.#check(request, `[${index}]`, problems));
    problems.throwIfAny(`Nothing of ${requests.length} tasks was enqueued: they`);
    if (tx) return putAll(storeInTransaction(tx, this.#database.schema), tasks, false);
    if (tasks.length <= BATCH) return patiently(() => putAll(this.#database, tasks, true));
    return patiently(() => this.#database.transaction((store) => putAll(store, tasks, false)));
  }

  /** Every call that was made has been answered. */
  async idle(): Promise<void> {
    await this.#batcher.idle();
  }

  async #check(request: EnqueueRequest, path: string, problems: Problems): Promise<NewTask> {
    const { task, input, options } = request;
    if (typeof task?.runBatch !== "function") {
      problems.add(path, "the first argument must be a task made by defineTask");
      return { id: "" as TaskId, name: "", uniqueKey: undefined, tx: undefined, json: "" };
    }
    const parsed = await parseInput(task, input);
    if (!parsed.ok)
      for (const problem of parsed.problems) problems.add(path === "" ? "input" : `${path}.input`, problem);
    // What was given is stored, not what the schema made of it: it is parsed again where it runs.
    return toNewTask(
      { task, input, options, path, limitBytes: this.#limitBytes, nextId: () => this.#ids.next() },
      problems,
    );
  }

  /** One statement for callers who know nothing of each other: if it fails, each is tried alone and gets its own error. */
  async #putSharing(tasks: readonly NewTask[]): Promise<readonly (EnqueueAnswer | Promise<EnqueueAnswer>)[]> {
    const how = { refuseAll: false, alone: true };
    try {
      return await patiently(() => put(this.#database, tasks, how));
    } catch (error) {
      if (tasks.length === 1 || isTransient(error)) throw error;
      return tasks.map((task) => patiently(() => put(this.#database, [task], how)).then(([answer]) => answer));
    }
  }
}

type EnqueueAnswer = { taskId: TaskId; outcome: "kept" | "replaced" | "refused" } | undefined;

async function putAll(store: Store, tasks: readonly NewTask[], alone: boolean): Promise<TaskId[]> {
  const ids: TaskId[] = [];
  for (let from = 0; from < tasks.length; from += BATCH) {
    const batch = tasks.slice(from, from + BATCH);
    const answers = await put(store, batch, { refuseAll: true, alone });
    for (const [index, task] of batch.entries()) ids.push(answers[index]?.taskId ?? task.id);
  }
  return ids;
}

async function put(
  store: Store,
  tasks: readonly NewTask[],
  how: { refuseAll: boolean; alone: boolean },
): Promise<EnqueueAnswer[]> {
  if (tasks.length === 0) return [];
  const notes = await enqueueTasks(store, {
    tasksJson: `[${tasks.map((task) => task.json).join(",")}]`,
    hasUniqueKeys: tasks.some((task) => task.uniqueKey !== undefined),
    ...how,
  }).catch((error: unknown) => Promise.reject(asEnqueueError(error)));
  const answers = new Array<EnqueueAnswer>(tasks.length).fill(undefined);
  for (const note of notes)
    answers[Number(note.ordinal) - 1] = { taskId: note.taskId as TaskId, outcome: note.outcome };
  return answers;
}

/** Tries again while the database is away, for a while: the ids are ours, so a repeated call is the same tasks. */
async function patiently<T>(work: () => Promise<T>): Promise<T> {
  const backoff = createBackoff({ firstMs: 50, maxMs: 1_000 });
  const givingUpAt = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isTransient(error) || performance.now() > givingUpAt) throw error;
      await backoff.pause();
    }
  }
}

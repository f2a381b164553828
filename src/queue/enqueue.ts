/** Putting tasks in: checked whole before anything is written, one statement per batch, repeatable after a lost reply. */
import { Problems } from "../config/problems.ts";
import { createBackoff } from "../database/backoff.ts";
import type { Database, Store } from "../database/database.ts";
import { storeInTransaction } from "../database/transaction-store.ts";
import { isTransient } from "../database/transient.ts";
import { enqueueKeyed, insertTasks } from "../sql/enqueue.ts";
import type { Transaction } from "../task/context.ts";
import type { AnyTask } from "../task/define-task.ts";
import { DuplicateTaskError } from "../task/errors.ts";
import { type TaskId, TaskIds } from "../task/ids.ts";
import { parseInput } from "../task/input.ts";
import { toJson } from "../task/json.ts";
import { Batcher } from "./batcher.ts";
import { checkTerms, type Terms } from "./enqueue-options.ts";
import { asEnqueueError } from "./enqueue-refusals.ts";

/** How many calls share a statement. */
const SHARED_BATCH = 1_000;
/** What of one call goes into one statement: so many tasks, or fewer where their inputs are long. */
const MANY_BATCH = 10_000;
const MANY_CHARACTERS = 16 * 1_048_576;
/** How long a call goes on trying while the database is away; after that the caller is told. */
const PATIENCE_MS = 10_000;

export interface EnqueueRequest {
  readonly task: AnyTask;
  readonly input: unknown;
  readonly options: unknown;
}

export interface ManyRequest {
  readonly task: AnyTask;
  readonly inputs: readonly unknown[];
  /** The same for all, or a function that makes them for each input. */
  readonly options: unknown;
  readonly tx: Transaction | undefined;
}

/** A task that was checked and has its id. */
interface NewTask {
  readonly id: TaskId;
  readonly input: string;
  readonly terms: Terms;
}

interface How {
  /** Whether a refused duplicate refuses the whole batch. */
  readonly refuseAll: boolean;
  readonly alone: boolean;
  /** This, or something like it, was sent before. */
  readonly again: boolean;
}

export class Enqueuer {
  readonly #database: Database;
  readonly #limitBytes: number;
  readonly #ids = new TaskIds();
  readonly #batcher: Batcher<NewTask, EnqueueAnswer>;

  constructor(database: Database, options: { inputLimitBytes: number }) {
    this.#database = database;
    this.#limitBytes = options.inputLimitBytes;
    this.#batcher = new Batcher({ maxItems: SHARED_BATCH, maxUnderWay: 4, run: (tasks) => this.#putSharing(tasks) });
  }

  async enqueue({ task, input, options }: EnqueueRequest): Promise<TaskId> {
    const problems = new Problems();
    const terms = this.#checkTerms(task, options, "options", problems);
    const text = terms && (await this.#checkInput(task, input, problems));
    problems.throwIfAny(`Task "${task?.name}" was not enqueued: it`);
    const created = this.#create(terms as Terms, text as string);
    const tx = terms?.tx && storeInTransaction(terms.tx, this.#database.schema);
    const answer = tx
      ? (await put(tx, [created], { refuseAll: false, alone: false, again: false }))[0]
      : await this.#batcher.add(created);
    if (!answer) return created.id;
    if (answer.outcome === "refused")
      throw new DuplicateTaskError(created.terms.name, created.terms.uniqueKey ?? "", answer.taskId);
    return answer.taskId;
  }

  /** All or nothing: one transaction, whatever the number. The ids come back in the order of the inputs. */
  async enqueueMany(request: ManyRequest): Promise<TaskId[]> {
    const tasks = await this.#checkMany(request);
    const { schema } = this.#database;
    if (request.tx)
      return putAll(storeInTransaction(request.tx, schema), slicesOf(tasks), { alone: false, again: false });
    const slices = slicesOf(tasks);
    if (slices.length <= 1) return patiently((again) => putAll(this.#database, slices, { alone: true, again }));
    return patiently((again) => this.#database.transaction((store) => putAll(store, slices, { alone: false, again })));
  }

  /** Every call that was made has been answered. */
  async idle(): Promise<void> {
    await this.#batcher.idle();
  }

  async #checkMany({ task, inputs, options }: ManyRequest): Promise<NewTask[]> {
    const problems = new Problems();
    const optionsFor = typeof options === "function" ? options : undefined;
    const same = optionsFor ? undefined : this.#checkTerms(task, options, "options", problems);
    const tasks: NewTask[] = [];
    for (const [index, input] of inputs.entries()) {
      const terms = optionsFor
        ? this.#checkTerms(task, optionsFor(input, index), `[${index}].options`, problems)
        : same;
      if (!terms) break;
      const text = this.#checkInput(task, input, problems, index);
      tasks.push(this.#create(terms, typeof text === "string" ? text : await text));
    }
    problems.throwIfAny(`Nothing of ${inputs.length} tasks was enqueued: they`);
    return tasks;
  }

  #checkTerms(task: AnyTask, options: unknown, path: string, problems: Problems): Terms | undefined {
    if (typeof task?.runBatch === "function")
      return checkTerms({ task, options, path, limitBytes: this.#limitBytes }, problems);
    problems.add("", "the first argument must be a task made by defineTask");
    return undefined;
  }

  /** The input as JSON: what was given is stored, not what the schema made of it. It is parsed again where it runs. */
  #checkInput(task: AnyTask, input: unknown, problems: Problems, index?: number): string | Promise<string> {
    const parsed = parseInput(task, input);
    const conclude = (outcome: Awaited<typeof parsed>) => {
      const json = toJson(input, this.#limitBytes);
      if (outcome.ok && json.ok) return json.text;
      const path = index === undefined ? "input" : `[${index}].input`;
      if (!outcome.ok) for (const problem of outcome.problems) problems.add(path, problem);
      if (!json.ok) problems.add(path, json.problem);
      return "";
    };
    return parsed instanceof Promise ? parsed.then(conclude) : conclude(parsed);
  }

  #create(terms: Terms, input: string): NewTask {
    return { id: terms.id ?? this.#ids.next(), input, terms };
  }

  /** One statement for callers who know nothing of each other: if it fails, each is tried alone and gets its own error. */
  async #putSharing(tasks: readonly NewTask[]): Promise<readonly (EnqueueAnswer | Promise<EnqueueAnswer>)[]> {
    const how = { refuseAll: false, alone: true };
    try {
      return await patiently((again) => put(this.#database, tasks, { ...how, again }));
    } catch (error) {
      if (tasks.length === 1 || isTransient(error)) throw error;
      const putAlone = (task: NewTask) => patiently(() => put(this.#database, [task], { ...how, again: true }));
      return tasks.map((task) => putAlone(task).then(([answer]) => answer));
    }
  }
}

type EnqueueAnswer = { taskId: TaskId; outcome: "kept" | "replaced" | "refused" } | undefined;

function slicesOf(tasks: readonly NewTask[]): readonly (readonly NewTask[])[] {
  const slices: NewTask[][] = [];
  let room = 0;
  for (const task of tasks) {
    const last = slices.at(-1);
    room -= task.input.length;
    if (last && last.length < MANY_BATCH && room >= 0) last.push(task);
    else {
      slices.push([task]);
      room = MANY_CHARACTERS - task.input.length;
    }
  }
  return slices;
}

async function putAll(
  store: Store,
  slices: readonly (readonly NewTask[])[],
  how: Omit<How, "refuseAll">,
): Promise<TaskId[]> {
  const ids: TaskId[] = [];
  for (const slice of slices) {
    const answers = await put(store, slice, { ...how, refuseAll: true });
    for (const [index, task] of slice.entries()) ids.push(answers[index]?.taskId ?? task.id);
  }
  return ids;
}

async function put(store: Store, tasks: readonly NewTask[], how: How): Promise<EnqueueAnswer[]> {
  const answers: EnqueueAnswer[] = new Array(tasks.length);
  try {
    if (tasks.every((task) => task.terms.uniqueKey === undefined)) {
      // Ids that callers chose may have been used before.
      const fresh = !how.again && tasks.every((task) => task.terms.id === undefined);
      await insertTasks(store, tasks, { fresh, alone: how.alone });
      return answers;
    }
    for (const { ordinal, taskId, outcome } of await enqueueKeyed(store, tasks, how))
      answers[Number(ordinal) - 1] = { taskId: taskId as TaskId, outcome };
    return answers;
  } catch (error) {
    throw asEnqueueError(error);
  }
}

/** Tries again while the database is away, for a while: the ids are ours, so a repeated call is the same tasks. */
async function patiently<T>(work: (again: boolean) => Promise<T>): Promise<T> {
  const backoff = createBackoff({ firstMs: 50, maxMs: 1_000 });
  const givingUpAt = performance.now() + PATIENCE_MS;
  for (let again = false; ; again = true) {
    try {
      return await work(again);
    } catch (error) {
      if (!isTransient(error) || performance.now() > givingUpAt) throw error;
      await backoff.pause();
    }
  }
}

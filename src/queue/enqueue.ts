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
import { type ParsedInput, parseInput } from "../task/input.ts";
import { toJson, toJsonQuickly } from "../task/json.ts";
import { Batcher } from "./batcher.ts";
import { checkTerms, type Terms } from "./enqueue-options.ts";
import { asEnqueueError } from "./enqueue-refusals.ts";

/** How many calls share a statement. */
const SHARED_BATCH = 1_000;
/** What of one call goes into one statement: so many tasks, or fewer where they are long. */
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
      ? (await put(tx, [created], { refuseAll: false, alone: false, again: false })).get(0)
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
    for (let index = 0; index < inputs.length; index++) {
      const input = inputs[index];
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

  #checkInput(task: AnyTask, input: unknown, problems: Problems, index?: number): string | Promise<string> {
    const quick = task.schema ? undefined : toJsonQuickly(input, this.#limitBytes);
    if (quick !== undefined) return quick;
    const parsed = parseInput(task, input);
    if (!(parsed instanceof Promise)) return this.#toText(input, parsed, problems, index);
    return parsed.then((outcome) => this.#toText(input, outcome, problems, index));
  }

  /** What was given is stored, not what the schema made of it: it is parsed again where it runs. */
  #toText(input: unknown, parsed: ParsedInput, problems: Problems, index: number | undefined): string {
    const json = toJson(input, this.#limitBytes);
    if (parsed.ok && json.ok) return json.text;
    const path = index === undefined ? "input" : `[${index}].input`;
    if (!parsed.ok) for (const problem of parsed.problems) problems.add(path, problem);
    if (!json.ok) problems.add(path, json.problem);
    return "";
  }

  #create(terms: Terms, input: string): NewTask {
    return { id: terms.id ?? this.#ids.next(), input, terms };
  }

  /** One statement for callers who know nothing of each other: if it fails, each is tried alone and gets its own error. */
  async #putSharing(tasks: readonly NewTask[]): Promise<readonly (EnqueueAnswer | Promise<EnqueueAnswer>)[]> {
    const how = { refuseAll: false, alone: true };
    try {
      const answers = await patiently((again) => put(this.#database, tasks, { ...how, again }));
      return tasks.map((_, place) => answers.get(place));
    } catch (error) {
      if (tasks.length === 1 || isTransient(error)) throw error;
      const putAlone = (task: NewTask) => patiently(() => put(this.#database, [task], { ...how, again: true }));
      return tasks.map((task) => putAlone(task).then((answers) => answers.get(0)));
    }
  }
}

/** Nothing, where a task was simply enqueued. */
type EnqueueAnswer = { taskId: TaskId; outcome: "kept" | "replaced" | "refused" } | undefined;

function slicesOf(tasks: readonly NewTask[]): readonly (readonly NewTask[])[] {
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

async function putAll(
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

/** What is to be said of some of the tasks, by their place. */
async function put(
  store: Store,
  tasks: readonly NewTask[],
  how: How,
): Promise<Map<number, NonNullable<EnqueueAnswer>>> {
  try {
    if (tasks.some((task) => task.terms.uniqueKey !== undefined)) {
      const notes = await enqueueKeyed(store, tasks, how);
      return new Map(
        notes.map((note) => [Number(note.ordinal) - 1, { taskId: note.taskId as TaskId, outcome: note.outcome }]),
      );
    }
    // Ids that callers chose may have been used before.
    const fresh = !how.again && tasks.every((task) => task.terms.id === undefined);
    await insertTasks(store, tasks, { fresh, alone: how.alone });
    return new Map();
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

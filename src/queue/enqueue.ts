/** Putting tasks in: checked whole before anything is written, one statement per batch, repeatable after a lost reply. */
import { describe } from "../config/checks.ts";
import { Problems } from "../config/problems.ts";
import type { Database, Store } from "../database/database.ts";
import { storeInTransaction } from "../database/transaction-store.ts";
import { isCancelled, isTransient } from "../database/transient.ts";
import { enqueueKeyed, groupsOf, insertTaskPromptly, insertTasks } from "../sql/enqueue.ts";
import type { Transaction } from "../task/context.ts";
import type { AnyTask } from "../task/define-task.ts";
import { DuplicateTaskError } from "../task/errors.ts";
import { type TaskId, TaskIds } from "../task/ids.ts";
import { type ParsedInput, parseInput } from "../task/input.ts";
import { toJson, toJsonQuickly } from "../task/json.ts";
import { Batcher } from "./batcher.ts";
import { checkTerms, type Terms } from "./enqueue-options.ts";
import { asEnqueueError } from "./enqueue-refusals.ts";
import { patiently } from "./patiently.ts";

/** How many calls share a statement. */
const SHARED_BATCH = 1_000;
/** What of one call goes into one statement: so many tasks, or fewer where they are long. */
const MANY_BATCH = 10_000;
const MANY_CHARACTERS = 16 * 1_048_576;

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
  /** For single calls, the database itself. A worker that such a call wakes need not wait until the task is durable; only the caller waits. */
  readonly promptly?: Database;
  /** This, or something like it, was sent before. */
  readonly again: boolean;
}

export class Enqueuer {
  readonly #database: Database;
  readonly #limitBytes: number;
  readonly #ids = new TaskIds();
  /** Of each task where nothing is asked for: they do not change. */
  readonly #bareTerms = new WeakMap<AnyTask, Terms>();
  readonly #batcher: Batcher<NewTask, EnqueueAnswer>;

  constructor(database: Database, options: { inputLimitBytes: number }) {
    this.#database = database;
    this.#limitBytes = options.inputLimitBytes;
    this.#batcher = new Batcher({ maxItems: SHARED_BATCH, maxUnderWay: 4, run: (tasks) => this.#putSharing(tasks) });
  }

  async enqueue({ task, input, options }: EnqueueRequest): Promise<TaskId> {
    const problems = new Problems();
    checkTask(task, problems);
    problems.throwIfAny("The call of enqueue");
    const what = `Task "${task.name}" was not enqueued: it`;
    const terms = this.#checkTerms(task, options, "options", problems);
    const created = this.#create(terms, await this.#checkInput(task, input, problems));
    problems.throwIfAny(what);
    const tx = terms.tx && storeInTransaction(terms.tx, this.#database.schema);
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
    const { terms, texts } = await this.#checkMany(request);
    if (!Array.isArray(terms) && isPlain(terms) && !request.tx && fitsOneStatement(texts))
      return this.#putAlike(terms, texts);
    const tasks = texts.map((text, index) =>
      this.#create(Array.isArray(terms) ? (terms[index] as Terms) : terms, text),
    );
    const slices = slicesOf(tasks);
    if (request.tx) {
      const store = storeInTransaction(request.tx, this.#database.schema);
      return putAll(store, slices, { alone: false, again: false });
    }
    if (slices.length <= 1) return patiently((again) => putAll(this.#database, slices, { alone: true, again }));
    return patiently((again) => this.#database.transaction((store) => putAll(store, slices, { alone: false, again })));
  }

  /** Every call that was made has been answered. */
  async idle(): Promise<void> {
    await this.#batcher.idle();
  }

  /** The terms of each input, or those of them all; and each input as JSON. */
  async #checkMany({ task, inputs, options }: ManyRequest): Promise<{ terms: Terms | Terms[]; texts: string[] }> {
    const problems = new Problems();
    const refuseIfAny = () => problems.throwIfAny(`Nothing of ${inputs.length} tasks was enqueued: they`);
    checkTask(task, problems);
    refuseIfAny();
    const terms =
      typeof options === "function"
        ? inputs.map((input, index) => this.#checkTerms(task, options(input, index), `[${index}].options`, problems))
        : this.#checkTerms(task, options, "options", problems);
    const texts: string[] = [];
    for (let index = 0; index < inputs.length; index++) {
      const text = this.#checkInput(task, inputs[index], problems, index);
      texts.push(typeof text === "string" ? text : await text);
    }
    refuseIfAny();
    return { terms, texts };
  }

  /** What most calls with many tasks are, without a detour by way of each task. */
  async #putAlike(terms: Terms, inputs: readonly string[]): Promise<TaskId[]> {
    if (inputs.length === 0) return [];
    const ids = inputs.map(() => this.#ids.next());
    const groups = [{ terms: terms.json, ids, inputs }];
    await patiently((again) => insertTasks(this.#database, groups, { fresh: !again, alone: true }).catch(refuse));
    return ids;
  }

  #checkTerms(task: AnyTask, options: unknown, path: string, problems: Problems): Terms {
    const known = options === undefined ? this.#bareTerms.get(task) : undefined;
    if (known) return known;
    const terms = checkTerms({ task, options, path, limitBytes: this.#limitBytes }, problems);
    if (options === undefined) this.#bareTerms.set(task, terms);
    return terms;
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
    const how = { refuseAll: false, alone: true, promptly: this.#database };
    try {
      const answers = await patiently((again) => put(this.#database, tasks, { ...how, again }));
      return tasks.map((_, place) => answers.get(place));
    } catch (error) {
      // Cancelled when others could see it already, a task is there; tried again under its id, that is known.
      if (isTransient(error) || (tasks.length === 1 && !isCancelled(error))) throw error;
      const putAlone = (task: NewTask) => patiently(() => put(this.#database, [task], { ...how, again: true }));
      return tasks.map((task) => putAlone(task).then((answers) => answers.get(0)));
    }
  }
}

function checkTask(task: AnyTask | undefined, problems: Problems): void {
  if (typeof task?.runBatch !== "function")
    problems.add("", `the first argument must be a task made by defineTask, not ${describe(task)}`);
}

/** Nothing about it has to be looked up: no key that may be taken, no id that may have been used before. */
function isPlain(terms: Terms): boolean {
  return terms.uniqueKey === undefined && terms.id === undefined;
}

function fitsOneStatement(texts: readonly string[]): boolean {
  let characters = 0;
  for (const text of texts) characters += text.length;
  return texts.length <= MANY_BATCH && characters <= MANY_CHARACTERS;
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
  await insertTasks(store, groupsOf(tasks), { fresh, alone: how.alone }).catch(refuse);
  return answers;
}

function refuse(error: unknown): never {
  throw asEnqueueError(error);
}

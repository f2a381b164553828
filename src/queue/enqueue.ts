/** Putting tasks in: checked whole before anything is written, one statement per batch, repeatable after a lost reply. */
import { Problems } from "../config/problems.ts";
import type { Database, Store } from "../database/database.ts";
import { isOutsideTransaction, storeInTransaction } from "../database/transaction-store.ts";
import { insertTasks } from "../sql/enqueue.ts";
import { checkTask } from "../task/check-task.ts";
import type { Transaction } from "../task/context.ts";
import type { AnyTask } from "../task/define-task.ts";
import { DuplicateTaskError, NotInTransactionError } from "../task/errors.ts";
import { type TaskId, TaskIds } from "../task/ids.ts";
import { type ParsedInput, parseInput } from "../task/input.ts";
import { toJson, toJsonQuickly } from "../task/json.ts";
import { checkTerms, type Terms } from "./enqueue-options.ts";
import { KeyedCalls } from "./keyed-calls.ts";
import { patiently } from "./patiently.ts";
import { fitsOneStatement, type How, isPlain, type NewTask, put, putAll, refuse, slicesOf } from "./put-tasks.ts";
import { SharedCalls } from "./shared-calls.ts";

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

export class Enqueuer {
  readonly #database: Database;
  readonly #limitBytes: number;
  readonly #ids = new TaskIds();
  /** Of each task where nothing is asked for: they do not change. */
  readonly #bareTerms = new WeakMap<AnyTask, Terms>();
  readonly #shared: SharedCalls;
  readonly #keyed: KeyedCalls;

  constructor(database: Database, options: { inputLimitBytes: number }) {
    this.#database = database;
    this.#limitBytes = options.inputLimitBytes;
    this.#shared = new SharedCalls(database);
    this.#keyed = new KeyedCalls(database);
  }

  async enqueue({ task, input, options }: EnqueueRequest): Promise<TaskId> {
    const problems = new Problems();
    checkTask(task, problems);
    problems.throwIfAny("The call of enqueue");
    const what = `Task "${task.name}" was not enqueued: it`;
    const terms = this.#checkTerms(task, options, "options", problems);
    const created = this.#create(terms, await this.#checkInput(task, input, problems));
    problems.throwIfAny(what);
    const tx = terms.tx && (await this.#storeIn(terms.tx, task));
    const answer = tx
      ? (await put(tx, [created], { refuseAll: false, alone: false, again: false })).get(0)
      : await (isPlain(terms) ? this.#shared : this.#keyed).add(created);
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
      const store = await this.#storeIn(request.tx, request.task);
      return putAll(store, slices, { alone: false, again: false });
    }
    if (tasks.every((one) => isPlain(one.terms))) return patiently((again) => this.#putMany(slices, { again }));
    return this.#keyed.whenFree((patienceMs, again) => this.#putMany(slices, { again, patienceMs }));
  }

  #putMany(slices: readonly (readonly NewTask[])[], how: Pick<How, "again" | "patienceMs">): Promise<TaskId[]> {
    if (slices.length <= 1) return putAll(this.#database, slices, { ...how, alone: true });
    return this.#database.transaction((store) => putAll(store, slices, { ...how, alone: false }));
  }

  /** Every call that was made has been answered. */
  async idle(): Promise<void> {
    await Promise.all([this.#shared.idle(), this.#keyed.idle()]);
  }

  /** No call waits any longer for a key or an id that somebody else's transaction holds: it is told that this was closed. */
  giveUpWaiting(): void {
    this.#keyed.giveUpWaiting();
  }

  async #storeIn(tx: Transaction, task: AnyTask): Promise<Store> {
    const store = storeInTransaction(tx, this.#database.schema);
    if (await isOutsideTransaction(tx))
      throw new NotInTransactionError(`Task "${task.name}" was to be enqueued in a transaction`);
    return store;
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
}

/** Looking tasks up and ordering something done to them: what people and their tools do. */
import {
  type Check,
  type Checked,
  checkOptions,
  isBoolean,
  isDuration,
  isFunction,
  isInstant,
  isInteger,
  isOneOf,
  isText,
} from "../config/checks.ts";
import type { Duration } from "../config/duration.ts";
import { Problems } from "../config/problems.ts";
import type { Database } from "../database/database.ts";
import { type CancelOutcome, cancelTasks, type Ordered, type RetryOutcome, retryTasks } from "../sql/orders.ts";
import type { TaskFilter } from "../sql/task-filter.ts";
import { countByState, listTaskIds, listTasks, showTask, type TaskDetails, type TaskSummary } from "../sql/tasks.ts";
import { TaskNotFoundError } from "../task/errors.ts";
import { isReplicaId, toTaskIds } from "../task/id-checks.ts";
import { isUuid, type TaskId } from "../task/ids.ts";
import { isName } from "../task/settings.ts";
import { TASK_STATES, type TaskState } from "../task/states.ts";
import { stateProblem, type TaskOrder } from "./orderable-states.ts";
import { putByName, type TaskByName } from "./task-by-name.ts";

export interface TaskQuery {
  state?: TaskState | undefined;
  name?: string | undefined;
  queue?: string | undefined;
  replicaId?: string | undefined;
  errorCode?: string | undefined;
  createdAfter?: Date | string | undefined;
  createdBefore?: Date | string | undefined;
}

export interface TaskPage {
  readonly tasks: readonly TaskSummary[];
  /** Pass it as `before` to get the next page; undefined on the last. */
  readonly next: TaskId | undefined;
}

export const QUERY_RULES = {
  state: isOneOf(TASK_STATES),
  name: isName,
  queue: isName,
  replicaId: isReplicaId,
  errorCode: isText({ max: 200 }),
  createdAfter: isInstant,
  createdBefore: isInstant,
};
export const PAGE_RULES = { ...QUERY_RULES, limit: isInteger({ min: 1, max: 1_000 }), before: isText({ max: 36 }) };
const ORDER_BATCH = 500;

/** An order to many tasks is carried out in batches. This is called before the first and after each of them; if it throws, the order ends there. */
export type OrderProgress = (progress: { readonly done: number; readonly of: number }) => void;

export interface CancelOptions {
  reason?: string | undefined;
  grace?: Duration | undefined;
  onProgress?: OrderProgress | undefined;
}

export const isCancelGrace = isDuration({ minMs: 0, maxMs: 86_400_000 });

export const CANCEL_RULES = { reason: isText({ max: 1_000 }), grace: isCancelGrace };
const RETRY_SHAPE = { force: isBoolean, onProgress: isFunction as Check<OrderProgress> };
const CANCEL_SHAPE = { ...CANCEL_RULES, onProgress: RETRY_SHAPE.onProgress };

export function checkCancel(options: unknown): Checked<typeof CANCEL_SHAPE> {
  const problems = new Problems();
  const checked = checkOptions(options, CANCEL_SHAPE, { path: "options", problems });
  problems.throwIfAny("The cancellation");
  return checked;
}

function checkRetry(options: unknown): Checked<typeof RETRY_SHAPE> {
  const problems = new Problems();
  const checked = checkOptions(options, RETRY_SHAPE, { path: "options", problems });
  problems.throwIfAny("The retry");
  return checked;
}

export class TaskOrders {
  readonly #database: Database;
  readonly #cancelGraceMs: number;
  readonly #inputLimitBytes: number;

  constructor(database: Database, options: { cancelGraceMs: number; inputLimitBytes: number }) {
    this.#database = database;
    this.#cancelGraceMs = options.cancelGraceMs;
    this.#inputLimitBytes = options.inputLimitBytes;
  }

  /** A task that this process need not know: its queue and its priority are those of the definition that its workers have stored. */
  enqueue(task: TaskByName): Promise<TaskId> {
    return putByName(this.#database, task, this.#inputLimitBytes);
  }

  /** Newest first. */
  async list(query: TaskQuery & { limit?: number | undefined; before?: string | undefined } = {}): Promise<TaskPage> {
    const problems = new Problems();
    const { limit = 50, before, ...filter } = checkOptions(query, PAGE_RULES, { path: "", problems });
    if (before !== undefined && !isUuid(before)) problems.add("before", "must be the id that the last page ended with");
    problems.throwIfAny("The list of tasks");
    const tasks = await listTasks(this.#database, filter, { before, limit });
    return { tasks, next: tasks.length === limit ? tasks.at(-1)?.id : undefined };
  }

  async show(id: string): Promise<TaskDetails> {
    const task = await showTask(this.#database, toTaskIds([id])[0] as TaskId);
    if (!task) throw new TaskNotFoundError(id);
    return task;
  }

  async counts(): Promise<Readonly<Record<TaskState, number>>> {
    const counts = await countByState(this.#database);
    return Object.fromEntries(TASK_STATES.map((state) => [state, counts[state] ?? 0])) as Record<TaskState, number>;
  }

  /** Pending and claimed tasks end at once; a running one is told through its signal, and ended for it after the grace. */
  async cancel(
    which: string | readonly string[] | TaskQuery,
    options: CancelOptions = {},
  ): Promise<readonly Ordered<CancelOutcome>[]> {
    const { reason, grace, onProgress } = checkCancel(options);
    const chosen = await this.#choose(which, { order: "cancel", states: ["pending", "claimed", "running"] });
    return inBatches(chosen, onProgress, (ids) =>
      cancelTasks(this.#database, ids, { graceMs: grace ?? this.#cancelGraceMs, reason }),
    );
  }

  /**
   * Failed tasks start over, with their budgets as new; pending ones need not wait for their time. With `force`, a task
   * that is claimed or running is taken away from its worker, whose writes are refused from then on. A failed task whose row in `task`
   * is missing stays as it is (`unrecorded`).
   */
  async retry(
    which: string | readonly string[] | TaskQuery,
    options: { force?: boolean | undefined; onProgress?: OrderProgress | undefined } = {},
  ): Promise<readonly Ordered<RetryOutcome>[]> {
    const { force = false, onProgress } = checkRetry(options);
    const chosen = await this.#choose(which, {
      ...(force
        ? { order: "retry by force", states: ["failed", "claimed", "running"] }
        : { order: "retry", states: ["failed"] }),
    });
    return inBatches(chosen, onProgress, (ids) => retryTasks(this.#database, ids, force));
  }

  /** A filter without a state means these states. */
  async #choose(
    which: string | readonly string[] | TaskQuery,
    { order, states }: { order: TaskOrder; states: readonly TaskState[] },
  ): Promise<Chosen> {
    if (typeof which === "string" || isList(which)) {
      return { ids: toTaskIds(typeof which === "string" ? [which] : which), stillFitting: async (ids) => ids };
    }
    const problems = new Problems();
    const filter: TaskFilter = checkOptions(which, QUERY_RULES, { path: "", problems });
    // A filter whose every value happens to be undefined must not mean everything there is.
    if (problems.isEmpty && Object.values(filter).every((value) => value === undefined)) {
      problems.add("", "it is not said which tasks: give ids, or a filter such as { state, name, queue }");
    }
    const problem = stateProblem(order, filter.state);
    if (problem) problems.add("state", problem);
    problems.throwIfAny("The choice of tasks");
    const fitting = async (among?: readonly TaskId[]) => {
      const found = new Set<TaskId>();
      for (const state of filter.state ? [filter.state] : states) {
        for (const id of await listTaskIds(this.#database, { ...filter, state, ids: among })) found.add(id);
      }
      return [...found];
    };
    // All ids are read at once: to look for the next page, the server would have to search through all tasks again.
    return { ids: await fitting(), stillFitting: fitting };
  }
}

interface Chosen {
  readonly ids: readonly TaskId[];
  /** The later batches of a long order are looked at again: a task that was pending may be running by now. */
  stillFitting(ids: readonly TaskId[]): Promise<readonly TaskId[]>;
}

async function inBatches<O>(
  { ids, stillFitting }: Chosen,
  onProgress: OrderProgress | undefined,
  order: (ids: readonly TaskId[]) => Promise<Ordered<O>[]>,
): Promise<Ordered<O>[]> {
  const answers: Ordered<O>[] = [];
  if (ids.length > 0) onProgress?.({ done: 0, of: ids.length });
  for (let from = 0; from < ids.length; from += ORDER_BATCH) {
    const batch = ids.slice(from, from + ORDER_BATCH);
    answers.push(...(await order(from === 0 ? batch : await stillFitting(batch))));
    onProgress?.({ done: from + batch.length, of: ids.length });
  }
  return answers;
}

/** `Array.isArray` does not see through `readonly`. */
function isList(which: readonly string[] | TaskQuery): which is readonly string[] {
  return Array.isArray(which);
}

/** Putting tasks in: one statement for a batch, in groups of tasks that have the same terms. */
import type { Database, Store } from "../database/database.ts";
import { areLong, longValues } from "./long-values.ts";

/** Tasks that have the same terms. */
export interface TaskGroup {
  /** JSON text. */
  readonly terms: string;
  readonly ids: readonly string[];
  /** JSON text of each, stored to the letter. */
  readonly inputs: readonly string[];
}

/** A task on its way into the database. */
export interface TaskToPut {
  readonly id: string;
  /** JSON text, stored to the letter. */
  readonly input: string;
  readonly terms: { readonly json: string };
}

export interface EnqueueNote {
  /** The place of the task in the batch, from 1. */
  readonly ordinal: number;
  /** The task that is there already. */
  readonly taskId: string;
  readonly outcome: "kept" | "replaced" | "refused";
}

/** `patienceMs`: others' transactions, which hold an id or a key, are not waited for any longer (55P03). Without it, as long as they take. */
export interface Patience {
  readonly patienceMs?: number | undefined;
}

/**
 * Enqueues tasks without unique keys. `fresh`: none of these ids was ever sent before; else a task whose id is known is left
 * as it is. `alone`: the statement is a transaction of its own.
 */
export async function insertTasks(
  store: Store,
  groups: readonly TaskGroup[],
  how: Patience & { fresh: boolean; alone: boolean },
): Promise<void> {
  const [group] = groups;
  if (group && groups.length === 1 && areLong(group.inputs)) return insertLongTasks(store, group, how);
  await store.query(
    `select ${store.schema}.insert_tasks($1::json, $2::json, $3, $4, p_patience_ms => $5)`,
    [...toParameters(groups), how.fresh, how.alone, how.patienceMs ?? null],
    "often",
  );
}

/** Here it makes no measurable difference whether the ids are known before. */
async function insertLongTasks(
  store: Store,
  { terms, ids, inputs }: TaskGroup,
  how: Patience & { alone: boolean },
): Promise<void> {
  const [termsJson] = toParameters([{ terms, ids, inputs: [] }]);
  const { list, values } = longValues(inputs, 3);
  await store.query(
    `select ${store.schema}.insert_tasks($1::json, '[]', false, $2, p_patience_ms => $3, p_long => ${list})`,
    [termsJson, how.alone, how.patienceMs ?? null, ...values],
    "often",
  );
}

/**
 * One task with a fresh id, due at once, in a statement that is a transaction of its own, or two: where it wakes a worker, the task
 * can be seen and claimed before it is durable. It returns when it is. If it fails, the task may be there all the same.
 */
export async function insertTaskPromptly(
  { schema, queryCommitting }: Database,
  task: { id: string; name: string; queue: string; priority: number; input: string },
): Promise<void> {
  await queryCommitting(
    {
      alone: `call ${schema}.insert_task_promptly($1, $2, $3, $4, $5)`,
      inTransaction: `select ${schema}.insert_task($1, $2, $3, $4, $5)`,
    },
    [task.id, task.name, task.queue, task.priority, task.input],
  );
}

export function groupsOf(tasks: readonly TaskToPut[]): readonly TaskGroup[] {
  const groups = new Map<string, { terms: string; ids: string[]; inputs: string[] }>();
  for (const { id, input, terms } of tasks) {
    const group = groups.get(terms.json);
    if (!group) groups.set(terms.json, { terms: terms.json, ids: [id], inputs: [input] });
    else {
      group.ids.push(id);
      group.inputs.push(input);
    }
  }
  return [...groups.values()];
}

/**
 * Enqueues tasks of which some have unique keys. Answers only for those that were not simply enqueued.
 * `refuseAll`: a refused duplicate fails the statement, so that nothing of the batch is written.
 */
export async function enqueueKeyed(
  store: Store,
  tasks: readonly TaskToPut[],
  how: Patience & { refuseAll: boolean; alone: boolean },
): Promise<EnqueueNote[]> {
  const groups = tasks.map(({ id, input, terms }) => ({ terms: terms.json, ids: [id], inputs: [input] }));
  return store.query<EnqueueNote>(
    `select ordinal, task_id::text as "taskId", outcome from ${store.schema}.enqueue_keyed($1::json, $2::json, $3, $4, $5)`,
    [...toParameters(groups), how.refuseAll, how.alone, how.patienceMs ?? null],
    "often",
  );
}

/** By hand: everything in it is JSON already, or an id. */
function toParameters(groups: readonly TaskGroup[]): [terms: string, inputs: string] {
  const terms = groups.map((group) => `${group.terms.slice(0, -1)},"ids":"{${group.ids.join(",")}}"}`);
  const inputs = groups.map((group) => `[${group.inputs.join(",")}]`);
  return [`[${terms.join(",")}]`, `[${inputs.join(",")}]`];
}

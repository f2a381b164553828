/** Which tasks are asked for: a filter and a page as the clauses of a statement. */
import type { TaskState } from "../task/states.ts";

export interface TaskFilter {
  readonly state?: TaskState | undefined;
  readonly name?: string | undefined;
  readonly queue?: string | undefined;
  readonly replicaId?: string | undefined;
  /** The code of the error it ended with. */
  readonly errorCode?: string | undefined;
  readonly createdAfter?: string | undefined;
  readonly createdBefore?: string | undefined;
  readonly ids?: readonly string[] | undefined;
}

export interface TaskPageRequest {
  /** Only ids below this one. */
  readonly before?: string | undefined;
  readonly limit: number;
}

/** What a statement about `${schema}.tasks t` goes on with: newest first, and all of them where no page is given. */
export function pageOf(
  schema: string,
  filter: TaskFilter,
  page?: TaskPageRequest,
): { clauses: string; values: unknown[] } {
  const values: unknown[] = [];
  const compare = (parts: string[], condition: (parameter: string) => string, value: unknown) => {
    if (value === undefined) return;
    values.push(value);
    parts.push(condition(`$${values.length}`));
  };
  const ofTask: string[] = [];
  compare(ofTask, (p) => `t.name = ${p}`, filter.name);
  compare(ofTask, (p) => `t.queue = ${p}`, filter.queue);
  compare(ofTask, (p) => `t.created_at >= ${p}::timestamptz`, filter.createdAfter);
  compare(ofTask, (p) => `t.created_at < ${p}::timestamptz`, filter.createdBefore);
  compare(ofTask, (p) => `t.id = any (${p}::uuid[])`, filter.ids);
  compare(ofTask, (p) => `t.id < ${p}::uuid`, page?.before);
  const ofItsState: string[] = [];
  compare(ofItsState, (p) => `t.replica_id = ${p}::uuid`, filter.replicaId);
  compare(ofItsState, (p) => `t.error_code = ${p}`, filter.errorCode);
  const end = `order by t.id desc${page ? ` limit ${Math.trunc(page.limit)}` : ""}`;
  const inState: string[] = [];
  if (filter.ids) compare(inState, (p) => `t.state = ${p}`, filter.state);
  else if (filter.state) inState.push(idsIn(schema, filter.state, { ofTask, end }));
  return { clauses: `${where([...inState, ...ofTask, ...ofItsState])} ${end}`, values };
}

/** Where a state is asked for, and not of certain tasks, its own small table leads the search, not the record of everything. */
function idsIn(schema: string, state: TaskState, pending: { ofTask: readonly string[]; end: string }): string {
  const from = (table: string) => `t.id in (select task_id from ${schema}.${table} where state = '${state}')`;
  switch (state) {
    case "pending":
      return pendingIds(schema, pending);
    case "claimed":
    case "running":
      return from("running");
    default:
      return from("ended");
  }
}

/** They wait in three ways, each with an index of its own: a page of each is more than enough for a page of all. */
function pendingIds(schema: string, { ofTask, end }: { ofTask: readonly string[]; end: string }): string {
  const page = (table: string, joined: string, ...more: string[]) =>
    `(select t.id from ${schema}.task t join ${schema}.${table} w on ${joined} ${where([...more, ...ofTask])} ${end})`;
  const ways = [
    page("ready", `${schema}.waits_at(w, t)`),
    page("ready", "w.task_id = t.id", "w.input is null"),
    page("parked", "w.task_id = t.id"),
  ];
  return `t.id in (${ways.join(" union all ")})`;
}

function where(conditions: readonly string[]): string {
  return conditions.length > 0 ? `where ${conditions.join(" and ")}` : "";
}

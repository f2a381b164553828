/** What has been enqueued of one task, with its types. */
import { anything, type Check, checkOptions, isListOf, isOneOf } from "../config/checks.ts";
import { Problems } from "../config/problems.ts";
import type { Everbeat, TaskHandle } from "../everbeat.ts";
import { listStoredTasks, type StoredTask } from "../sql/testing.ts";
import { checkTask } from "../task/check-task.ts";
import type { AnyTask, Task } from "../task/define-task.ts";
import { isName } from "../task/settings.ts";
import { TASK_STATES, type TaskState } from "../task/states.ts";
import { isPartOf, type PartOf } from "./part-of.ts";

export interface EnqueuedTask<Input, Output> extends Omit<StoredTask, "id" | "input" | "result"> {
  readonly id: TaskHandle<Output>;
  /** As it was stored: JSON, so a Date is text here. */
  readonly input: Input;
  /** Null unless the task has completed with one. */
  readonly result: Output | null;
}

/** A part that the input must have, or a function that says whether it is the one. */
export type InputMatch<Input> = PartOf<Input> | ((input: Input) => boolean);

export interface EnqueuedFilter<Input = unknown> {
  /** Default: any state. "pending" is what waits. */
  state?: TaskState | readonly TaskState[];
  queue?: string;
  input?: InputMatch<Input>;
  /** A part that the metadata must have. */
  metadata?: unknown;
}

/** Oldest first. */
export async function enqueued<Input, Output>(
  everbeat: Everbeat,
  task: Task<Input, Output>,
  filter?: EnqueuedFilter<Input>,
): Promise<readonly EnqueuedTask<Input, Output>[]> {
  const { state, queue, input, metadata } = check(task, filter);
  const stored = await listStoredTasks(everbeat.database, { name: task.name, states: state, queue });
  return (stored as readonly EnqueuedTask<Input, Output>[]).filter(
    (found) => matches(found.input, input as InputMatch<Input>) && isPartOf(metadata, found.metadata),
  );
}

const isState = isOneOf(TASK_STATES);
const isStates: Check<readonly TaskState[]> = (value, path, problems) =>
  Array.isArray(value)
    ? isListOf(isState)(value, path, problems)
    : [isState(value, path, problems)].filter((state) => state !== undefined);

const SHAPE = { state: isStates, queue: isName, input: anything, metadata: anything };

function check(task: AnyTask, filter: unknown) {
  const problems = new Problems();
  checkTask(task, problems, "the second argument");
  const given = checkOptions(filter, SHAPE, { path: "", problems });
  problems.throwIfAny("enqueued");
  return given;
}

function matches<Input>(input: Input, match: InputMatch<Input> | undefined): boolean {
  return typeof match === "function" ? (match as (input: Input) => boolean)(input) : isPartOf(match, input);
}

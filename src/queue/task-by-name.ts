/** Putting in a task that this process need not know, by its name. */
import { Problems } from "../config/problems.ts";
import type { Store } from "../database/database.ts";
import { enqueueByName } from "../sql/enqueue-by-name.ts";
import type { TaskId } from "../task/ids.ts";
import { toJson } from "../task/json.ts";
import { isName } from "../task/settings.ts";
import { checkEnqueueOptions, type EnqueueOptions } from "./enqueue-options.ts";
import { asEnqueueError } from "./enqueue-refusals.ts";

export interface TaskByName {
  name: string;
  /** What the handler is given: anything that JSON can hold (default: null). */
  input?: unknown;
  /** The same as JSON text, which is stored to the letter. */
  inputJson?: string | undefined;
  options?: Omit<EnqueueOptions, "tx"> | undefined;
}

/** The id of the task, or of the one that was there already under the same unique key. */
export async function putByName(store: Store, task: TaskByName, limitBytes: number): Promise<TaskId> {
  const problems = new Problems();
  isName(task.name, "name", problems);
  const inputJson = readInput(task, limitBytes, problems);
  const { tx } = checkEnqueueOptions(task.options, "options", problems);
  if (tx !== undefined) problems.add("options.tx", "there is no such option here; in a transaction, use enqueue");
  problems.throwIfAny("The task was not enqueued: it");
  try {
    const optionsJson = JSON.stringify(task.options ?? {});
    return (await enqueueByName(store, { name: task.name, inputJson, optionsJson })) as TaskId;
  } catch (error) {
    throw asEnqueueError(error);
  }
}

function readInput({ input = null, inputJson }: TaskByName, limitBytes: number, problems: Problems): string {
  if (inputJson === undefined) {
    const json = toJson(input, limitBytes);
    if (json.ok) return json.text;
    problems.add("input", json.problem);
    return "";
  }
  if (input !== null) problems.add("", "input and inputJson exclude each other; give one of them");
  try {
    JSON.parse(inputJson);
  } catch {
    problems.add("inputJson", "is not JSON");
  }
  return inputJson;
}

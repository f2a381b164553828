/** Asserts what was enqueued, and says what was found where it was not. */
import { AssertionError } from "node:assert";
import { inspect } from "node:util";
import { anything, checkOptions, isInteger } from "../config/checks.ts";
import { Problems } from "../config/problems.ts";
import type { Everbeat } from "../everbeat.ts";
import { checkTask } from "../task/check-task.ts";
import type { AnyTask, Task } from "../task/define-task.ts";
import { type EnqueuedFilter, type EnqueuedTask, enqueued } from "./enqueued.ts";

export interface EnqueuedExpectation<Input = unknown> extends EnqueuedFilter<Input> {
  /** Exactly so often; 0 for not at all. Default: at least once. */
  times?: number;
}

const MAX_SHOWN = 10;

/** Returns the tasks that fit. Throws an AssertionError that lists all that there are otherwise. */
export async function assertEnqueued<Input, Output>(
  everbeat: Everbeat,
  task: Task<Input, Output>,
  expectation: EnqueuedExpectation<Input> = {},
): Promise<readonly EnqueuedTask<Input, Output>[]> {
  const { times, ...filter } = check(task, expectation);
  const fitting = await enqueued(everbeat, task, filter as EnqueuedFilter<Input>);
  if (times === undefined ? fitting.length > 0 : fitting.length === times) return fitting;
  const all = await enqueued(everbeat, task);
  throw new AssertionError({
    message: describeMiss(task.name, { times, filter, fitting: fitting.length, all }),
    actual: all.map((found) => found.input),
    expected: filter.input,
    operator: "assertEnqueued",
    stackStartFn: assertEnqueued,
  });
}

const SHAPE = {
  times: isInteger({ min: 0, max: 1_000_000 }),
  state: anything,
  queue: anything,
  input: anything,
  metadata: anything,
};

function check(task: AnyTask, expectation: unknown) {
  const problems = new Problems();
  checkTask(task, problems, "the second argument");
  const given = checkOptions(expectation, SHAPE, { path: "", problems });
  problems.throwIfAny("assertEnqueued");
  return given;
}

function describeMiss(
  name: string,
  miss: {
    times: number | undefined;
    filter: object;
    fitting: number;
    all: readonly EnqueuedTask<unknown, unknown>[];
  },
): string {
  const wanted = miss.times === undefined ? "at least one task" : count(miss.times);
  const which = Object.keys(miss.filter).length > 0 ? ` with ${show(miss.filter)}` : "";
  const head = `Expected ${wanted} "${name}"${which}, and ${miss.fitting === 1 ? "one fits" : `${miss.fitting} fit`}.`;
  if (miss.all.length === 0) return `${head} No task of this name was enqueued at all.`;
  const shown = miss.all.slice(0, MAX_SHOWN).map((found) => {
    const metadata = found.metadata === null ? "" : `, metadata ${show(found.metadata)}`;
    return `  - ${found.state} in queue ${found.queue}: ${show(found.input)}${metadata}`;
  });
  const more = miss.all.length > MAX_SHOWN ? [`  … and ${miss.all.length - MAX_SHOWN} more`] : [];
  return [`${head} Enqueued were:`, ...shown, ...more].join("\n");
}

function count(times: number): string {
  if (times === 0) return "no task";
  return times === 1 ? "exactly one task" : `exactly ${times} tasks`;
}

function show(value: unknown): string {
  return inspect(value, { depth: 6, breakLength: Number.POSITIVE_INFINITY, maxStringLength: 200, maxArrayLength: 20 });
}

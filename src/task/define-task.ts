/** Task definitions: what a task is called, what it takes, how it is run and what happens when that goes wrong. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { isObject } from "../config/checks.ts";
import type { Duration } from "../config/duration.ts";
import { Problems } from "../config/problems.ts";
import type { TaskContext } from "./context.ts";
import { checkSettings, type RunIn, type TaskSettings } from "./settings.ts";

export interface RetryOptions {
  /** How many attempts in all; 1 (the default) never retries. */
  attempts?: number | undefined;
  /** "exponential" (the default), "fixed", or the delays one by one; the last one repeats. */
  backoff?: "exponential" | "fixed" | Duration[] | undefined;
  /** The first delay (default 1 s). */
  delay?: Duration | undefined;
  /** No delay is longer (default 1 h). */
  maxDelay?: Duration | undefined;
  /** The random share of each delay, 0 to 1 (default 0.2). */
  jitter?: number | undefined;
  /** Errors not worth retrying: error codes or names, or a function that says so. */
  unless?: readonly string[] | ((error: unknown) => boolean) | undefined;
}

export interface TaskOptions {
  name: string;
  queue?: string | undefined;
  /** -100 (first) to 100 (last); 0 unless given. */
  priority?: number | undefined;
  retry?: RetryOptions | undefined;
  /** A running attempt is aborted after this long. */
  timeout?: Duration | undefined;
  /** What becomes of the task when its worker dies while running it. "fail" is the default: code that ran may have had effects. */
  onCrash?: "fail" | "retry" | "requeue" | undefined;
  /** How many workers it may cost before it is put into quarantine, where it is repeated at all (default: 3, by the recovery settings). */
  crashBudget?: number | undefined;
  /** Whether the handler goes on while its worker cannot reach the database. */
  whenCutOff?: "abort" | "continue" | undefined;
  /**
   * Where the handler runs: "inline" (the default) in the worker's own thread, "thread" in a thread of its own, for work that
   * keeps a processor busy, "process" in a process of its own, for work that may bring a process down.
   */
  runIn?: RunIn | undefined;
  /** With "thread" and "process": `import.meta.url`, by which a runner finds this task among the module's exports. */
  module?: string | URL | undefined;
  /** No `phase` and no `progress` for this long is a stall, whatever the heart says. */
  stalledAfter?: Duration | undefined;
  /** What becomes of a stalled attempt: "alert" (default) leaves it alone, "fail" and "retry" end it with the code STALLED. */
  onStall?: "alert" | "fail" | "retry" | undefined;
}

export interface BatchItem<Input> {
  readonly input: Input;
  readonly context: TaskContext;
}

declare const types: unique symbol;

/** A definition, as `enqueue` and `work` take it. Input is what callers pass, Output what they get back. */
export interface Task<Input = unknown, Output = unknown> {
  readonly name: string;
  readonly settings: TaskSettings;
  readonly schema: StandardSchemaV1 | undefined;
  readonly batchSize: number;
  /** For tasks that take one input at a time. May throw at once. */
  readonly runOne: ((input: never, context: TaskContext) => unknown) | undefined;
  /** Runs a batch; a batch of one for tasks that were defined by `defineTask`. One outcome per item, in order. */
  readonly runBatch: (items: readonly BatchItem<never>[]) => Promise<readonly unknown[]>;
  readonly [types]?: { takes: (input: Input) => void; returns: Output };
}

/** For lists of tasks of any types. */
export type AnyTask = Task<never, unknown>;
export type InputOf<T> = T extends Task<infer Input, unknown> ? Input : never;
export type OutputOf<T> = T extends Task<never, infer Output> ? Output : never;

type In<S extends StandardSchemaV1> = StandardSchemaV1.InferInput<S>;
type Parsed<S extends StandardSchemaV1> = StandardSchemaV1.InferOutput<S>;

export function defineTask<S extends StandardSchemaV1, Output>(
  options: TaskOptions & { input: S; run(input: Parsed<S>, context: TaskContext): Output },
): Task<In<S>, Awaited<Output>>;
export function defineTask<Output, Input = void>(
  options: TaskOptions & { input?: undefined; run(input: Input, context: TaskContext): Output },
): Task<Input, Awaited<Output>>;
export function defineTask(
  options: TaskOptions & {
    input?: StandardSchemaV1 | undefined;
    run(input: never, context: TaskContext): unknown;
  },
): AnyTask {
  requireObject("defineTask", options);
  const { input, run, ...rest } = options;
  const runBatch: AnyTask["runBatch"] = async ([item]) => (item ? [await run(item.input, item.context)] : []);
  return build(rest, { schema: input, batchSize: 1, run, runOne: (item, context) => run(item, context), runBatch });
}

/**
 * A task that takes several inputs at once: `run` gets up to `batchSize` items and returns one outcome for each, in the
 * same order, where an Error fails that item alone. Throwing fails them all.
 */
export function defineBatchTask<S extends StandardSchemaV1, Output>(
  options: TaskOptions & {
    input: S;
    batchSize: number;
    run(items: readonly BatchItem<Parsed<S>>[]): Promise<readonly (Output | Error)[]>;
  },
): Task<In<S>, Output>;
export function defineBatchTask<Output, Input = void>(
  options: TaskOptions & {
    input?: undefined;
    batchSize: number;
    run(items: readonly BatchItem<Input>[]): Promise<readonly (Output | Error)[]>;
  },
): Task<Input, Output>;
export function defineBatchTask(
  options: TaskOptions & {
    input?: StandardSchemaV1 | undefined;
    batchSize: number;
    run(items: readonly BatchItem<never>[]): Promise<readonly unknown[]>;
  },
): AnyTask {
  requireObject("defineBatchTask", options);
  const { input, batchSize, run, ...rest } = options;
  return build(rest, { schema: input, batchSize, run, runOne: undefined, runBatch: async (items) => run(items) });
}

export function requireOneForEach(task: AnyTask, outcomes: unknown, count: number): void {
  if (Array.isArray(outcomes) && outcomes.length === count) return;
  throw new TypeError(`Task "${task.name}" must return one outcome for each of its ${count} items, in a list.`);
}

/** Whether this is what `defineTask` or `defineBatchTask` returned, of whichever copy of this package. */
export function isTask(value: unknown): value is AnyTask {
  const { name, runBatch, settings } = (value ?? {}) as Partial<AnyTask>;
  return typeof name === "string" && typeof runBatch === "function" && typeof settings === "object";
}

/** What a module exports: the task itself, or those in an exported list or object. */
export function tasksIn(value: unknown): AnyTask[] {
  if (isTask(value)) return [value];
  if (typeof value !== "object" || value === null) return [];
  return Object.values(value).filter(isTask);
}

/** The same task, known to be exported by this module; one that says where it is stays as it is. */
export function fromModule(task: AnyTask, module: string): AnyTask {
  if (task.settings.module !== undefined) return task;
  return Object.freeze({ ...task, settings: Object.freeze({ ...task.settings, module }) });
}

/** Before it is taken apart: JavaScript may have given anything. */
function requireObject(call: string, options: unknown): void {
  const problems = new Problems();
  isObject(options, { path: "", problems, example: '{ name: "send-mail", run() {} }' });
  problems.throwIfAny(call);
}

function build(
  options: TaskOptions,
  parts: Pick<AnyTask, "schema" | "batchSize" | "runOne" | "runBatch"> & { run: unknown },
): AnyTask {
  const problems = new Problems();
  const settings = checkSettings(options, problems);
  const schema = parts.schema;
  if (schema !== undefined && typeof schema?.["~standard"]?.validate !== "function") {
    problems.add("input", "must be a Standard Schema, as zod, valibot and arktype make them");
  }
  if (typeof parts.run !== "function") problems.add("run", "must be a function");
  if (!Number.isInteger(parts.batchSize) || parts.batchSize < 1 || parts.batchSize > 1_000) {
    problems.add("batchSize", "must be a whole number from 1 to 1000");
  }
  problems.throwIfAny(`Task definition ${JSON.stringify(options?.name ?? "(without a name)")}`);
  const { batchSize, runOne, runBatch } = parts;
  return Object.freeze({ name: settings.name, settings, schema, batchSize, runOne, runBatch });
}

/**
 * Running handlers. A group is one task's batch (of one, for ordinary tasks); each member has its own context, signal,
 * timeout and ending, and nothing a handler does, throws or forgets reaches beyond its own group.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { NoRunnerError, RunnerEndedError } from "../runner/runner-death.ts";
import type { TaskContext } from "../task/context.ts";
import { type AnyTask, type BatchItem, requireOneForEach } from "../task/define-task.ts";
import { examinable } from "../task/error-record.ts";
import { CutOffError, InvalidInputError, ResultNotStorableError } from "../task/errors.ts";
import { type ParsedInput, parseInput } from "../task/input.ts";
import { toJson } from "../task/json.ts";
import { Snooze } from "../task/snooze.ts";
import { tellOfLateError } from "./ended-execution.ts";
import { type EndingListener, type Execution, isSuspect, mustStop } from "./execution.ts";
import type { ExecutionParts } from "./execution-parts.ts";
import { HandlerContext } from "./handler-context.ts";
import type { Ending } from "./outcome.ts";

/** A slow member holds back no other: of each ending the listener hears at once. */
export function runGroup(group: readonly Execution[], listener: EndingListener): void {
  const [first] = group;
  if (!first) return;
  if (group.length === 1) {
    runOne(first, listener);
    return;
  }
  const members = new Members(group.length, listener);
  for (const execution of group) execution.begin(members);
  void serve(first.task, group, first.parts);
}

/** A group of one. */
export function runOne(execution: Execution, listener: EndingListener): void {
  const { task, parts } = execution;
  execution.begin(listener);
  const isHere = !parts.runners?.take(task);
  if (isHere && task.runOne && parts.middleware.length === 0) settle(execution, runAlone);
  else void serve(task, [execution], parts);
}

/** How many of a group are still at work. */
class Members implements EndingListener {
  readonly #listener: EndingListener;
  #left: number;

  constructor(count: number, listener: EndingListener) {
    this.#left = count;
    this.#listener = listener;
  }

  onEnding(execution: Execution, ending: Ending): void {
    this.#left--;
    this.#listener.onEnding(execution, ending, this.#left === 0);
  }
}

/** The usual case, with as little around it as there can be. */
function runAlone(execution: Execution): unknown {
  const { task, claimed } = execution;
  const run = task.runOne as NonNullable<AnyTask["runOne"]>;
  const context = new HandlerContext(execution);
  if (!task.schema) return run(claimed.input as never, context);
  const parsed = parseInput(task, claimed.input);
  return parsed instanceof Promise
    ? parsed.then((later) => run(acceptedInput(task, later) as never, context))
    : run(acceptedInput(task, parsed) as never, context);
}

/** Ends the attempt as the work ends, which may be at once; strays of the work are the attempt's own. */
function settle(execution: Execution, work: (execution: Execution) => unknown): void {
  try {
    const value = execution.parts.scopes.outermostScope(execution, work);
    if (isThenable(value)) endLater(execution, value);
    else endReturned(execution, value);
  } catch (thrown) {
    endThrown(execution, thrown);
  }
}

function endLater(execution: Execution, value: PromiseLike<unknown>): void {
  value.then(
    (later) => endReturned(execution, later),
    (thrown) => endThrown(execution, thrown),
  );
}

/** Calls the handler once for all who arrive at it through the middleware, and hands each its own outcome. */
async function serve(task: AnyTask, group: readonly Execution[], parts: ExecutionParts): Promise<void> {
  const seats = group.map((execution) => takeSeat(execution, parts));
  const arrivals = await Promise.all(seats.map((seat) => seat.arrived));
  const present = seats.filter((_, index) => arrivals[index] !== undefined);
  if (present.length === 0) return;
  const items: BatchItem<never>[] = seats.flatMap((seat, index) => {
    const arrival = arrivals[index];
    return arrival ? [{ input: arrival.input as never, context: seat.context }] : [];
  });
  const owner = {
    onStray(reason: unknown) {
      const atWork = present.filter(({ execution }) => !execution.hasEnded);
      // Of a batch that is over, one tells of it.
      for (const { execution } of atWork.length > 0 ? atWork : present.slice(0, 1)) execution.onStray(reason);
    },
    get endedTask() {
      const isOver = present.every(({ execution }) => execution.hasEnded);
      return isOver ? present[0]?.execution.endedTask : undefined;
    },
    onOwnStop() {
      const stop = { id: randomUUID(), tasks: present.length };
      for (const seat of present) seat.execution.onOwnStop(stop);
      parts.onOwnStop?.();
    },
  };
  try {
    // A batch belongs to no single member, so only a task that runs alone is inside its middleware.
    const inside = task.batchSize === 1 ? arrivals[0]?.inside : undefined;
    const run = () => parts.scopes.scope(owner, () => runBatch(task, items, present, parts, owner.onOwnStop));
    const outcomes = await (inside ? inside(run) : run());
    requireOneForEach(task, outcomes, present.length);
    present.forEach((seat, index) => {
      if (outcomes[index] instanceof Error) seat.served.reject(outcomes[index]);
      else seat.served.resolve(outcomes[index]);
    });
  } catch (error) {
    for (const seat of present) {
      // Whatever the middleware would make of that.
      const ending = endingWithoutRunner(error, seat.execution);
      if (ending) seat.execution.end(ending);
      seat.served.reject(error);
    }
  }
}

function runBatch(
  task: AnyTask,
  items: readonly BatchItem<never>[],
  seats: readonly Seat[],
  { runners, events }: ExecutionParts,
  onOwnStop: () => void,
): Promise<readonly unknown[]> {
  if (!runners?.take(task)) return task.runBatch(items);
  for (const { execution } of seats) execution.stopTimeout();
  const onBegun = () => {
    for (const { execution } of seats) execution.startTimeout();
  };
  return runners.runBatch({
    ...{ task, items, onBegun, onOwnStop },
    onLateError: (ref, error) => tellOfLateError(events, ref, error),
    mustStop: seats.some(({ execution }) => mustStop(execution)),
    needsFresh: seats.some(({ execution }) => isSuspect(execution.claimed)),
  });
}

/** A runner that ended after its handler was told to stop has stopped; one that ended by itself has crashed. */
function endingWithoutRunner(error: unknown, { isAborted, claimed }: Execution): Ending | undefined {
  if (error instanceof NoRunnerError) return { kind: "given-back", error };
  if (!(error instanceof RunnerEndedError)) return undefined;
  if (error.death.because === "cut-off") return { kind: "given-back", error: new CutOffError(claimed.taskId) };
  const { death } = error;
  if (!isAborted) return { kind: "crashed", death };
  return { kind: "stopped", wasEnded: death.because === "aborted", stack: death.stack };
}

/** A member on its way to the handler: through the middleware and its input's schema, then waiting to be served. */
interface Seat {
  readonly execution: Execution;
  readonly context: TaskContext;
  /** The parsed input once it has arrived at the handler; undefined if it never will. */
  readonly arrived: Promise<Arrival | undefined>;
  readonly served: PromiseWithResolvers<unknown>;
}

interface Arrival {
  readonly input: unknown;
  /** Runs something inside what the middleware has set up: the handler is to see its AsyncLocalStorage. */
  readonly inside: <T>(work: () => T) => T;
}

function takeSeat(execution: Execution, parts: ExecutionParts): Seat {
  const context = new HandlerContext(execution);
  const arrival = withResolvers<Arrival | undefined>();
  const served = withResolvers<unknown>();
  served.promise.catch(() => {});
  const innermost = async () => {
    const { task, claimed } = execution;
    // What its schema makes of an input may not be JSON: for a runner it is checked over there, where it is used.
    const isElsewhere = parts.runners?.take(task) === true;
    const input = isElsewhere ? claimed.input : acceptedInput(task, await parseInput(task, claimed.input));
    arrival.resolve({ input, inside: AsyncLocalStorage.snapshot() });
    return served.promise;
  };
  const onion = parts.middleware.reduceRight<() => Promise<unknown>>(
    (next, middleware) => async () => middleware(context, next),
    innermost,
  );
  settle(execution, () => onion().finally(() => arrival.resolve(undefined)));
  return { execution, context, arrived: arrival.promise, served };
}

function acceptedInput(task: AnyTask, parsed: ParsedInput): unknown {
  if (!parsed.ok) throw new InvalidInputError(task.name, parsed.problems);
  return parsed.value;
}

const WITHOUT_RESULT: Ending = { kind: "returned", resultJson: "null" };

function endReturned(execution: Execution, value: unknown): void {
  execution.end(value === undefined ? WITHOUT_RESULT : endingOfReturned(execution, value));
}

function endThrown(execution: Execution, thrown: unknown): void {
  execution.end(endingOfThrown(thrown));
}

function endingOfReturned(execution: Execution, value: unknown): Ending {
  const json = toJson(value, execution.parts.resultLimitBytes);
  if (json.ok) return { kind: "returned", resultJson: json.text };
  return { kind: "threw", error: new ResultNotStorableError(execution.task.name, json) };
}

function endingOfThrown(thrown: unknown): Ending {
  const error = examinable(thrown);
  return error instanceof Snooze ? { kind: "snoozed", delayMs: error.delayMs } : { kind: "threw", error };
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

interface PromiseWithResolvers<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

function withResolvers<T>(): PromiseWithResolvers<T> {
  let resolve: (value: T) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<T>((done, fail) => {
    resolve = done;
    reject = fail;
  });
  return { promise, resolve, reject };
}

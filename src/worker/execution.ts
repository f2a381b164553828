/**
 * Running handlers. A group is one task's batch (of one, for ordinary tasks); each member has its own context, signal,
 * timeout and ending, and nothing a handler does, throws or forgets reaches beyond its own group.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { durationMs } from "../config/duration.ts";
import { InvalidOptionsError } from "../config/problems.ts";
import { delay } from "../database/backoff.ts";
import { type Logger, withFields } from "../log.ts";
import type { ClaimedTask } from "../sql/claims.ts";
import type { Middleware, TaskContext } from "../task/context.ts";
import type { AnyTask, BatchItem } from "../task/define-task.ts";
import { CutOffError, InvalidInputError, ResultNotStorableError, TaskTimedOutError } from "../task/errors.ts";
import type { ReplicaId } from "../task/ids.ts";
import { parseInput } from "../task/input.ts";
import { toJson } from "../task/json.ts";
import { type ClaimHandle, createClaimHandle } from "./claim-handle.ts";
import type { Ending } from "./outcome.ts";
import type { StrayRejections } from "./stray-rejections.ts";

export interface ExecutionParts {
  readonly schema: string;
  readonly replica: { readonly id: ReplicaId };
  readonly log: Logger;
  readonly middleware: readonly Middleware[];
  readonly resultLimitBytes: number;
  /** How long a handler may take to stop once its signal has fired. */
  readonly abortGraceMs: number;
  readonly strays: StrayRejections;
}

/** One attempt in hand: what the worker can do to it while it runs. */
export interface Execution {
  readonly claimed: ClaimedTask;
  readonly task: AnyTask;
  readonly claim: ClaimHandle;
  readonly startedAtMs: number;
  readonly signal: AbortSignal;
  /** Tells the handler to stop, and why. Only the first reason counts. */
  abort(reason: unknown): void;
  /** Waits no longer for the handler, which was told to stop. */
  abandon(): void;
  readonly abandoned: AbortSignal;
}

export function createExecution(task: AnyTask, claimed: ClaimedTask, parts: ExecutionParts): Execution {
  const controller = new AbortController();
  const abandonment = new AbortController();
  return {
    claimed,
    task,
    claim: createClaimHandle({
      claimId: claimed.claimId,
      taskId: claimed.taskId,
      name: claimed.name,
      replicaId: parts.replica.id,
      schema: parts.schema,
      resultLimitBytes: parts.resultLimitBytes,
    }),
    startedAtMs: performance.now(),
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    abandon: () => abandonment.abort(),
    abandoned: abandonment.signal,
  };
}

/** Runs the group and reports each member's ending as soon as it is known: a slow member holds back no other. */
export async function runGroup(
  group: readonly Execution[],
  parts: ExecutionParts,
  onEnding: (execution: Execution, ending: Ending) => void,
): Promise<void> {
  const [first] = group;
  if (!first) return;
  const seats = group.map((execution) => takeSeat(execution, parts));
  const endings = seats.map(async (seat) => onEnding(seat.execution, await endingOf(seat, parts)));
  void serve(first.task, seats, parts);
  await Promise.all(endings);
}

interface Arrival {
  readonly input: unknown;
  /** Runs something inside what the middleware has set up: the handler is to see its AsyncLocalStorage. */
  readonly inside: <T>(work: () => T) => T;
}

/** A member on its way to the handler: through its input's schema and the middleware, then waiting to be served. */
interface Seat {
  readonly execution: Execution;
  readonly context: TaskContext;
  /** The parsed input once it has arrived at the handler; undefined if it never will. */
  readonly arrived: Promise<Arrival | undefined>;
  readonly served: PromiseWithResolvers;
  /** What came of it all, through the middleware again. */
  readonly outcome: Promise<unknown>;
  readonly onStray: (reason: unknown) => void;
}

function takeSeat(execution: Execution, parts: ExecutionParts): Seat {
  const context = createContext(execution, parts);
  const arrival = withResolvers<Arrival | undefined>();
  const served = withResolvers<unknown>();
  const stray = withResolvers<never>();
  served.promise.catch(() => {});
  stray.promise.catch(() => {});
  const { task, claimed } = execution;

  const innermost = async () => {
    const parsed = await parseInput(task, claimed.input);
    if (!parsed.ok) throw new InvalidInputError(task.name, parsed.problems);
    arrival.resolve({ input: parsed.value, inside: AsyncLocalStorage.snapshot() });
    return served.promise;
  };
  const onion = parts.middleware.reduceRight<() => Promise<unknown>>(
    (next, middleware) => async () => middleware(context, next),
    innermost,
  );
  const onStray = (thrown: unknown) => {
    const reason = examinable(thrown);
    stray.reject(reason);
    execution.abort(reason);
  };
  const work = parts.strays.scope(onStray, () => onion().finally(() => arrival.resolve(undefined)));
  return {
    execution,
    context,
    arrived: arrival.promise,
    served,
    outcome: Promise.race([work, stray.promise]),
    onStray,
  };
}

/** Calls the handler once for all who have arrived, and hands each its own outcome. */
async function serve(task: AnyTask, seats: readonly Seat[], parts: ExecutionParts): Promise<void> {
  const arrivals = await Promise.all(seats.map((seat) => seat.arrived));
  const present = seats.filter((_, index) => arrivals[index] !== undefined);
  if (present.length === 0) return;
  const items: BatchItem<never>[] = seats.flatMap((seat, index) => {
    const arrival = arrivals[index];
    return arrival ? [{ input: arrival.input as never, context: seat.context }] : [];
  });
  try {
    const onStray = (reason: unknown) => {
      for (const seat of present) seat.onStray(reason);
    };
    // A batch belongs to no single member, so only a task that runs alone is inside its middleware.
    const inside = task.batchSize === 1 ? arrivals[0]?.inside : undefined;
    const run = () => parts.strays.scope(onStray, () => task.runBatch(items));
    const outcomes = await (inside ? inside(run) : run());
    if (!Array.isArray(outcomes) || outcomes.length !== present.length) {
      throw new TypeError(
        `Task "${task.name}" must return one outcome for each of its ${present.length} items, in a list.`,
      );
    }
    present.forEach((seat, index) => {
      if (outcomes[index] instanceof Error) seat.served.reject(outcomes[index]);
      else seat.served.resolve(outcomes[index]);
    });
  } catch (error) {
    for (const seat of present) seat.served.reject(error);
  }
}

async function endingOf(seat: Seat, parts: ExecutionParts): Promise<Ending> {
  const { execution } = seat;
  const { timeoutMs } = execution.task.settings;
  const timer =
    timeoutMs === undefined
      ? undefined
      : setTimeout(
          () => execution.abort(new TaskTimedOutError(execution.claimed.taskId, timeoutMs)),
          Math.min(timeoutMs, MAX_TIMER_MS),
        );
  const over = new AbortController();
  try {
    const settled = seat.outcome.then(
      (value) => returned(execution, value, parts.resultLimitBytes),
      (thrown: unknown): Ending => {
        const error = examinable(thrown);
        return error instanceof Snooze ? { kind: "snoozed", delayMs: error.delayMs } : { kind: "threw", error };
      },
    );
    return await Promise.race([settled, abandonment(execution, parts.abortGraceMs, over.signal)]);
  } finally {
    clearTimeout(timer);
    over.abort();
  }
}

const MAX_TIMER_MS = 2_147_483_647;

function returned(execution: Execution, value: unknown, limitBytes: number): Ending {
  const json = toJson(value, limitBytes);
  if (json.ok) return { kind: "returned", resultJson: json.text };
  return { kind: "threw", error: new ResultNotStorableError(execution.task.name, json.problem) };
}

/** What was thrown, unless the mere question what it is throws in turn, as a proxy can: that must not reach the worker. */
function examinable(thrown: unknown): unknown {
  try {
    void (thrown instanceof Error);
    return thrown;
  } catch {
    return new Error("The handler threw something that cannot be examined.");
  }
}

/** Settles only after the signal has fired and the grace has passed; nothing of it is left once it is `over`. */
function abandonment({ signal, abandoned }: Execution, graceMs: number, over: AbortSignal): Promise<Ending> {
  return new Promise((resolve) => {
    const onAbort = () => {
      // Its heart ends the process if it does not stop: to wait no longer would only hide that it goes on.
      if (signal.reason instanceof CutOffError) return;
      void delay(graceMs, AbortSignal.any([abandoned, over])).then(() => resolve({ kind: "abandoned" }));
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true, signal: over });
  });
}

/** How `snooze` leaves the handler: thrown, so that it never returns, and told apart from a failure. */
class Snooze extends Error {
  constructor(readonly delayMs: number) {
    super("snoozed");
  }
}

function createContext({ claimed, claim, signal }: Execution, parts: ExecutionParts): TaskContext {
  return {
    signal,
    claim,
    task: {
      id: claimed.taskId,
      name: claimed.name,
      queue: claimed.queue,
      priority: claimed.priority,
      attempt: claimed.attempt,
      failures: claimed.failures,
      enqueuedAt: claimed.createdAt,
      metadata: claimed.metadata,
    },
    log: withFields(parts.log, { task: claimed.name, taskId: claimed.taskId, attempt: claimed.attempt }),
    snooze(duration) {
      const ms = durationMs(duration);
      if (ms === undefined || ms < 0)
        throw new InvalidOptionsError("snooze", [`must be a duration such as "5m", not ${String(duration)}`]);
      throw new Snooze(ms);
    },
  };
}

interface PromiseWithResolvers<T = unknown> {
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

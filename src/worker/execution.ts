/**
 * Running handlers. A group is one task's batch (of one, for ordinary tasks); each member has its own context, signal,
 * timeout and ending, and nothing a handler does, throws or forgets reaches beyond its own group.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { delay } from "../database/backoff.ts";
import { type Logger, withFields } from "../log.ts";
import { type ClaimHandle, createClaimHandle } from "../runner/claim-handle.ts";
import { NoRunnerError, RunnerEndedError } from "../runner/runner-death.ts";
import type { Runners } from "../runner/runners.ts";
import type { StrayRejections } from "../runner/stray-rejections.ts";
import type { ClaimedTask } from "../sql/claims.ts";
import type { Middleware, TaskContext } from "../task/context.ts";
import { type AnyTask, type BatchItem, requireOneForEach } from "../task/define-task.ts";
import { examinable } from "../task/error-record.ts";
import { CutOffError, InvalidInputError, ResultNotStorableError } from "../task/errors.ts";
import type { ReplicaId } from "../task/ids.ts";
import { parseInput } from "../task/input.ts";
import { toJson } from "../task/json.ts";
import { Snooze, snooze } from "../task/snooze.ts";
import { AttemptTimer, MAX_TIMER_MS } from "./attempt-timer.ts";
import type { Ending } from "./outcome.ts";

export interface ExecutionParts {
  readonly schema: string;
  readonly replica: { readonly id: ReplicaId };
  readonly log: Logger;
  readonly middleware: readonly Middleware[];
  readonly resultLimitBytes: number;
  /** How long a handler may take to stop once its signal has fired. */
  readonly abortGraceMs: number;
  readonly strays: StrayRejections;
  /** Where tasks run that do not run here. */
  readonly runners?: Runners;
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
  readonly timer: AttemptTimer;
  /** Settled when its runner ended without an outcome, whatever the middleware makes of that. */
  readonly lost: PromiseWithResolvers<Ending>;
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
    // What its schema makes of an input may not be JSON: for a runner it is checked over there, where it is used.
    const isElsewhere = parts.runners?.take(task) === true;
    const parsed = isElsewhere ? { ok: true as const, value: claimed.input } : await parseInput(task, claimed.input);
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
    timer: new AttemptTimer(execution),
    lost: withResolvers<Ending>(),
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
    const run = () => parts.strays.scope(onStray, () => runBatch(task, items, present, parts));
    const outcomes = await (inside ? inside(run) : run());
    requireOneForEach(task, outcomes, present.length);
    present.forEach((seat, index) => {
      if (outcomes[index] instanceof Error) seat.served.reject(outcomes[index]);
      else seat.served.resolve(outcomes[index]);
    });
  } catch (error) {
    for (const seat of present) {
      const lost = endingWithoutRunner(error, seat.execution);
      if (lost) seat.lost.resolve(lost);
      seat.served.reject(error);
    }
  }
}

function runBatch(
  task: AnyTask,
  items: readonly BatchItem<never>[],
  seats: readonly Seat[],
  { runners }: ExecutionParts,
): Promise<readonly unknown[]> {
  if (!runners?.take(task)) return task.runBatch(items);
  // The time that a runner takes to be there is not the handler's.
  for (const { timer } of seats) timer.stop();
  const onBegun = () => {
    for (const { timer } of seats) timer.start();
  };
  return runners.runBatch({ task, items, onBegun, mustStop: seats.some(({ execution }) => mustStop(execution)) });
}

/** Work that someone else may repeat, or that excludes others by its key, must not go on unseen. */
export function mustStop({ task, claimed }: Pick<Execution, "task" | "claimed">): boolean {
  return task.settings.whenCutOff === "abort" || task.settings.onCrash !== "fail" || claimed.exclusiveKey !== null;
}

/** A runner that ended after its handler was told to stop has stopped; one that ended by itself has crashed. */
function endingWithoutRunner(error: unknown, { signal, claimed: { taskId } }: Execution): Ending | undefined {
  if (error instanceof NoRunnerError) return { kind: "given-back", error };
  if (!(error instanceof RunnerEndedError)) return undefined;
  if (error.death.because === "cut-off") return { kind: "given-back", error: new CutOffError(taskId) };
  return signal.aborted ? { kind: "stopped" } : { kind: "crashed", death: error.death };
}

async function endingOf(seat: Seat, parts: ExecutionParts): Promise<Ending> {
  const { execution } = seat;
  const over = new AbortController();
  try {
    const settled = seat.outcome.then(
      (value) => returned(execution, value, parts.resultLimitBytes),
      (thrown: unknown): Ending => {
        const error = examinable(thrown);
        return error instanceof Snooze ? { kind: "snoozed", delayMs: error.delayMs } : { kind: "threw", error };
      },
    );
    // A runner is ended when its handler does not stop; what it ran is over when it is, and not before.
    const graceMs = parts.runners?.take(execution.task) ? MAX_TIMER_MS : parts.abortGraceMs;
    return await Promise.race([seat.lost.promise, settled, abandonment(execution, graceMs, over.signal)]);
  } finally {
    seat.timer.stop();
    over.abort();
  }
}

function returned(execution: Execution, value: unknown, limitBytes: number): Ending {
  const json = toJson(value, limitBytes);
  if (json.ok) return { kind: "returned", resultJson: json.text };
  return { kind: "threw", error: new ResultNotStorableError(execution.task.name, json.problem) };
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
    snooze,
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
